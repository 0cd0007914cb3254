package ship

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// notice matches the names of files that hold a module's licence.
var notice = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([.-].*)?$`)

// notices returns the licences of Go itself, and of all modules that the program contains on any of the platforms.
func (s *Source) notices(ctx context.Context, platforms []platform) ([]byte, error) {
	modules := map[string]string{} // folders by path and version
	for _, p := range platforms {
		out, err := s.run(ctx, p.environment(), "go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}", "./cmd/consumer")
		if err != nil {
			return nil, fmt.Errorf("listing the modules: %w", err)
		}
		for line := range strings.Lines(out) {
			if module, dir, is := strings.Cut(strings.TrimSpace(line), "\t"); is {
				modules[module] = dir
			}
		}
	}
	root, err := s.run(ctx, nil, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	modules["The Go standard library"] = root
	var out strings.Builder
	out.WriteString("waterwheel contains the following modules, under these licences.\n")
	for _, module := range slices.Sorted(maps.Keys(modules)) {
		texts, err := noticesIn(modules[module])
		if err != nil {
			return nil, err
		}
		if texts == "" {
			return nil, fmt.Errorf("the module %s has no licence in %s", module, modules[module])
		}
		fmt.Fprintf(&out, "\n%s\n%s\n\n%s", strings.Repeat("=", 100), module, texts)
	}
	return []byte(out.String()), nil
}

// noticesIn returns the texts of the licence files in a folder.
func noticesIn(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, e := range entries { // sorted by name
		if !e.Type().IsRegular() || !notice.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "%s\n", strings.ReplaceAll(string(text), "\r\n", "\n"))
	}
	return out.String(), nil
}

// billOfMaterials lists the components of the program, as CycloneDX.
func (s *Source) billOfMaterials(ctx context.Context) ([]byte, error) {
	out, err := s.run(ctx, platform{"linux", "amd64"}.environment(), "go", "tool", "-modfile="+filepath.Join(s.Root, "tools/deploy/go.mod"),
		"cyclonedx-gomod", "app", "-json", "-noserial", "-licenses", "-std", "-main", "cmd/consumer", s.Root)
	if err != nil {
		return nil, fmt.Errorf("listing the components: %w", err)
	}
	var bill map[string]any
	decoder := json.NewDecoder(strings.NewReader(out))
	decoder.UseNumber()
	if err := decoder.Decode(&bill); err != nil {
		return nil, fmt.Errorf("reading the bill of materials: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the bill of materials has something behind it")
	}
	metadata, _ := bill["metadata"].(map[string]any)
	if metadata == nil {
		return nil, errors.New("the bill of materials has no metadata")
	}
	metadata["timestamp"] = s.Time.Format("2006-01-02T15:04:05Z07:00")
	delete(metadata, "tools") // it holds hashes of the tool as it was built here
	if component, is := metadata["component"].(map[string]any); is {
		component["version"] = s.Version
	}
	text, err := json.MarshalIndent(bill, "", "  ")
	return append(text, '\n'), err
}
