package ship

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
)

const root = "../../.."

// open returns the repository as a source of releases. It replaces the programs with short texts, because builds are slow.
func open(t *testing.T) *Source {
	t.Helper()
	s, err := Open(t.Context(), root, "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	s.build = func(_ context.Context, p platform) ([]byte, error) {
		return []byte("a program for " + p.os + "/" + p.arch), nil
	}
	return s
}

// hashes returns the hashes of all files below a folder, by name.
func hashes(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		all[strings.TrimPrefix(path, dir+"/")] = fmt.Sprintf("%x", sha256.Sum256(content))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// wantSameFiles compares two folders byte by byte.
func wantSameFiles(t *testing.T, a, b string) {
	t.Helper()
	first, second := hashes(t, a), hashes(t, b)
	for name, hash := range first {
		if second[name] != hash {
			t.Errorf("%s differs the second time", name)
		}
	}
	if len(first) != len(second) || len(first) < 5 {
		t.Errorf("%d files the first time, %d the second", len(first), len(second))
	}
}

func TestImageIsTheSameTwice(t *testing.T) {
	s, a, b := open(t), filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	first, err := s.Image(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	second, err := s.Image(t.Context(), b)
	if err != nil || first != second || !strings.HasPrefix(first, "sha256:") {
		t.Errorf("the digests are %s and %s: %v", first, second, err)
	}
	wantSameFiles(t, a, b)
	if _, err := s.Image(t.Context(), a); err == nil {
		t.Error("an image was written over another one")
	}
}

// unpack writes the image of a layout for the present architecture into a folder, and returns its configuration.
func unpack(t *testing.T, path, dir string) (entrypoint []string, user string) {
	t.Helper()
	named, err := layout.ImageIndexFromPath(path)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := named.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if name := manifest.Manifests[0].Annotations["org.opencontainers.image.ref.name"]; len(manifest.Manifests) != 1 || name != "v1.2.3" {
		t.Errorf("the layout has %d images, the first is named %q", len(manifest.Manifests), name)
	}
	index, err := named.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	platforms, err := index.IndexManifest()
	if err != nil || len(platforms.Manifests) != 2 {
		t.Fatalf("%d platforms: %v", len(platforms.Manifests), err)
	}
	for _, m := range platforms.Manifests {
		if m.Platform.Architecture != runtime.GOARCH {
			continue
		}
		image, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		layers, err := image.Layers()
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range layers {
			content, err := l.Uncompressed()
			if err != nil {
				t.Fatal(err)
			}
			untar(t, content, dir)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		return config.Config.Entrypoint, config.Config.User
	}
	t.Skipf("the image has no platform %s", runtime.GOARCH)
	return nil, ""
}

func untar(t *testing.T, from io.Reader, dir string) {
	t.Helper()
	for r := tar.NewReader(from); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil || !filepath.IsLocal(h.Name) {
			t.Fatal(h, err)
		}
		path := filepath.Join(dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, os.FileMode(h.Mode)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestImageRuns checks that the program runs with only the files of the image, as an unprivileged user.
func TestImageRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: nothing is built")
	}
	s, dir := open(t), t.TempDir()
	program, err := s.goBuild(t.Context(), platform{"linux", runtime.GOARCH})
	if err != nil {
		t.Fatal(err)
	}
	s.build = func(context.Context, platform) ([]byte, error) { return program, nil }
	if _, err := s.Image(t.Context(), filepath.Join(dir, "layout")); err != nil {
		t.Fatal(err)
	}
	image := filepath.Join(dir, "image")
	entrypoint, user := unpack(t, filepath.Join(dir, "layout"), image)
	if user != "65532:65532" || len(entrypoint) != 1 {
		t.Fatalf("the image runs %q as %q", entrypoint, user)
	}
	pool := x509.NewCertPool()
	authorities, err := os.ReadFile(filepath.Join(image, "etc/ssl/certs/ca-certificates.crt"))
	if err != nil || !pool.AppendCertsFromPEM(authorities) || bytes.Count(authorities, []byte("BEGIN")) < 80 {
		t.Errorf("the image trusts %d authorities: %v", bytes.Count(authorities, []byte("BEGIN")), err)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root may change the root of the file system")
	}
	command := exec.CommandContext(t.Context(), entrypoint[0], "version")
	command.Dir = "/"
	command.SysProcAttr = &syscall.SysProcAttr{Chroot: image, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	for _, path := range []string{dir, filepath.Dir(dir)} { // these folders belong to this test only
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	out, err := command.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "waterwheel v1.2.3 (commit "+s.Revision) {
		t.Errorf("%v: %s", err, out)
	}
}

// TestReleaseIsTheSameTwice also checks the contents of the release.
func TestReleaseIsTheSameTwice(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: the tool for the bill of materials is not built")
	}
	s, a, b := open(t), filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	for _, dir := range []string{a, b} {
		if err := s.Release(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
	}
	wantSameFiles(t, a, b)
	all := hashes(t, a)
	sums, err := os.ReadFile(filepath.Join(a, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^([0-9a-f]{64})  (\S+)$`).FindAllStringSubmatch(string(sums), -1)
	for _, l := range lines {
		if all[l[2]] != l[1] {
			t.Errorf("the checksum of %s is wrong", l[2])
		}
	}
	if len(lines) != len(all)-1 || len(lines) != len(releasePlatforms)+2 {
		t.Errorf("%d checksums of %d files", len(lines), len(all))
	}
	archiveIsComplete(t, filepath.Join(a, "waterwheel_1.2.3_linux_amd64.tar.gz"))
	billIsComplete(t, filepath.Join(a, "waterwheel_1.2.3_sbom.cdx.json"))
	chart, err := loader.Load(filepath.Join(a, "waterwheel-chart_1.2.3.tgz"))
	if err != nil || chart.Metadata.Version != "1.2.3" || chart.Metadata.AppVersion != "v1.2.3" || len(chart.Templates) < 8 {
		t.Errorf("the chart is %+v: %v", chart, err)
	}
}

func archiveIsComplete(t *testing.T, path string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	plain, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	untar(t, plain, dir)
	folder := filepath.Join(dir, "waterwheel_1.2.3_linux_amd64")
	for name, part := range map[string]string{
		"waterwheel": "a program for linux/amd64", "LICENSE": "Apache License", "docs/configuration.md": "KAFKA_BROKERS",
		"deploy/prometheus/waterwheel.rules.yml": "WaterwheelStale", "deploy/systemd/waterwheel.service": "Type=notify",
		"THIRD-PARTY-LICENSES.txt": "go.mongodb.org/mongo-driver/v2",
	} {
		content, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil || !strings.Contains(string(content), part) {
			t.Errorf("%s of the archive lacks %q: %v", name, part, err)
		}
	}
	if info, err := os.Stat(filepath.Join(folder, "waterwheel")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the program cannot be run: %v, %v", info, err)
	}
}

func billIsComplete(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var bill struct {
		BOMFormat  string
		Components []struct {
			Name     string
			Licenses []any
			Evidence struct{ Licenses []any }
		}
	}
	if err := json.Unmarshal(text, &bill); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range bill.Components {
		names = append(names, c.Name)
	}
	for _, want := range []string{"go.mongodb.org/mongo-driver/v2", "github.com/segmentio/kafka-go", "std"} {
		if !slices.Contains(names, want) {
			t.Errorf("the bill of materials lacks %s: %q", want, names)
		}
	}
	if bill.BOMFormat != "CycloneDX" || strings.Contains(string(text), "serialNumber") {
		t.Errorf("the bill of materials is of the format %q, or has a random number", bill.BOMFormat)
	}
}
