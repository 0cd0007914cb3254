package ship

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"os"

	ggcr "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// programPath is the path of the program in the image. nobody is the id of the user that runs it.
const (
	programPath = "usr/local/bin/waterwheel"
	nobody      = "65532"
)

// imagePlatforms are the platforms of the image.
var imagePlatforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}}

// Image writes an image for all platforms to a folder, which must not exist, as an OCI layout. It returns the digest.
func (s *Source) Image(ctx context.Context, dir string) (digest string, err error) {
	if _, err := os.Stat(dir); err == nil {
		return "", fmt.Errorf("%s exists: name another folder", dir)
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range imagePlatforms {
		program, err := s.build(ctx, p)
		if err != nil {
			return "", err
		}
		image, err := s.imageOf(program, p)
		if err != nil {
			return "", fmt.Errorf("making the image for %s: %w", p.arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: ggcr.Descriptor{Platform: &ggcr.Platform{OS: p.os, Architecture: p.arch}},
		})
	}
	// The layout's own index refers to the image's index, with the version as its name.
	named := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{
		Add: index, Descriptor: ggcr.Descriptor{Annotations: map[string]string{"org.opencontainers.image.ref.name": s.Version}},
	})
	if _, err := layout.Write(dir, named); err != nil {
		return "", fmt.Errorf("writing the layout: %w", err)
	}
	hash, err := index.Digest()
	return hash.String(), err
}

// imageOf returns the image for one platform. Its single layer holds the program, the certificate authorities and a user.
func (s *Source) imageOf(program []byte, p platform) (ggcr.Image, error) {
	files, err := tarOf([]entry{
		{programPath, program, 0o755},
		{"etc/ssl/certs/ca-certificates.crt", certificates(), 0o644},
		{"etc/passwd", []byte("waterwheel:x:" + nobody + ":" + nobody + "::/:/sbin/nologin\n"), 0o644},
		{"etc/group", []byte("waterwheel:x:" + nobody + ":\n"), 0o644},
	}, s.Time)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if image, err = mutate.AppendLayers(image, layer); err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = p.os, p.arch, ggcr.Time{Time: s.Time}
	config.Config = ggcr.Config{
		User: nobody + ":" + nobody, Entrypoint: []string{"/" + programPath}, WorkingDir: "/",
		Env:          []string{"PATH=/usr/local/bin", "HTTP_ADDR=:9464"},
		ExposedPorts: map[string]struct{}{"9464/tcp": {}},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "waterwheel",
			"org.opencontainers.image.version":  s.Version,
			"org.opencontainers.image.revision": s.Revision,
			"org.opencontainers.image.created":  s.Time.Format("2006-01-02T15:04:05Z07:00"),
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return mutate.ConfigFile(image, config)
}

// certificates returns the authorities of Mozilla's program in PEM. They come from a module, whose version is pinned. It leaves
// out authorities that Mozilla trusts only for certificates up to a date, because PEM cannot express this.
func certificates() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer accepts every write
		}
	}
	return out.Bytes()
}
