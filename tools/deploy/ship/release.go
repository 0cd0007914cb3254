package ship

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// releasePlatforms are the platforms that get an archive.
var releasePlatforms = []platform{
	{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"},
}

// documents are the files and folders that every archive holds in addition to the program.
var documents = []string{"LICENSE", "README.md", "CHANGELOG.md", "docs", "deploy/grafana", "deploy/manifests", "deploy/prometheus", "deploy/systemd"}

// Release writes the files of a release to a folder, which must not exist. They are an archive for each platform, the chart, the
// bill of materials, and the checksums of all of them.
func (s *Source) Release(ctx context.Context, dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return fmt.Errorf("%s exists: name another folder", dir)
	}
	notices, err := s.notices(ctx, releasePlatforms)
	if err != nil {
		return err
	}
	common := []entry{{"THIRD-PARTY-LICENSES.txt", notices, 0o644}}
	for _, name := range documents {
		found, err := s.files(name, name)
		if err != nil {
			return err
		}
		common = append(common, found...)
	}
	release := map[string][]byte{}
	for _, p := range releasePlatforms {
		name, content, err := s.archive(ctx, p, common)
		if err != nil {
			return err
		}
		release[name] = content
	}
	if release["waterwheel-chart_"+s.plain()+".tgz"], err = s.chart(); err != nil {
		return err
	}
	if release["waterwheel_"+s.plain()+"_sbom.cdx.json"], err = s.billOfMaterials(ctx); err != nil {
		return err
	}
	release["SHA256SUMS"] = checksums(release)
	return write(dir, release)
}

// plain returns the version without the v of a tag.
func (s *Source) plain() string {
	if regexp.MustCompile(`^v\d`).MatchString(s.Version) {
		return s.Version[1:]
	}
	return s.Version
}

// files returns the files below a path of the repository. as replaces this path in their names.
func (s *Source) files(below, as string) (found []entry, err error) {
	top := filepath.Join(s.Root, below)
	err = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		rest := filepath.ToSlash(strings.TrimPrefix(path, top))
		found = append(found, entry{as + rest, content, 0o644})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", below, err)
	}
	return found, nil
}

// archive returns the archive for a platform. All its files are in a folder with the archive's name.
func (s *Source) archive(ctx context.Context, p platform, common []entry) (name string, content []byte, err error) {
	program, err := s.build(ctx, p)
	if err != nil {
		return "", nil, err
	}
	folder := fmt.Sprintf("waterwheel_%s_%s_%s", s.plain(), p.os, p.arch)
	files := []entry{{folder + "/" + p.executable(), program, 0o755}}
	for _, f := range common {
		files = append(files, entry{folder + "/" + f.name, f.content, f.mode})
	}
	if p.os == "windows" {
		content, err = zipOf(files, s.Time)
		return folder + ".zip", content, err
	}
	plain, err := tarOf(files, s.Time)
	if err != nil {
		return "", nil, err
	}
	content, err = gzipped(plain)
	return folder + ".tar.gz", content, err
}

// chart returns the chart as Helm packages it, with the version of the release.
func (s *Source) chart() ([]byte, error) {
	files, err := s.files("deploy/chart", "waterwheel")
	if err != nil {
		return nil, err
	}
	version := s.plain()
	if !regexp.MustCompile(`^\d+\.\d+\.\d+`).MatchString(version) {
		version = "0.0.0-" + version
	}
	for i, f := range files {
		if f.name == "waterwheel/Chart.yaml" {
			text := regexp.MustCompile(`(?m)^version: .*$`).ReplaceAllString(string(f.content), "version: "+version)
			text = regexp.MustCompile(`(?m)^appVersion: .*$`).ReplaceAllString(text, fmt.Sprintf("appVersion: %q", s.Version))
			files[i].content = []byte(text)
		}
	}
	plain, err := tarOf(files, s.Time)
	if err != nil {
		return nil, err
	}
	return gzipped(plain)
}

// checksums returns lines in the format of sha256sum.
func checksums(release map[string][]byte) []byte {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(release)) {
		fmt.Fprintf(&out, "%x  %s\n", sha256.Sum256(release[name]), name)
	}
	return []byte(out.String())
}

func write(dir string, release map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, content := range release {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// entry is a file of an archive.
type entry struct {
	name    string
	content []byte
	mode    int64
}

// withFolders adds the folders of the files, and sorts all entries by name.
func withFolders(files []entry) []entry {
	all := slices.Clone(files)
	seen := map[string]bool{}
	for _, f := range files {
		for dir := path.Dir(f.name); dir != "." && !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
			all = append(all, entry{name: dir + "/", mode: 0o755})
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	return all
}

// tarOf returns a tar archive of files that belong to root.
func tarOf(files []entry, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range withFolders(files) {
		h := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: at, Format: tar.FormatPAX, Typeflag: tar.TypeReg}
		if f.name[len(f.name)-1] == '/' {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// gzipped compresses content without a name and a time.
func gzipped(content []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}

// zipOf returns a zip archive, for Windows.
func zipOf(files []entry, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range withFolders(files) {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: at}
		to, err := w.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := to.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}
