package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Write writes report.json and report.md to a folder, and makes the folder if it does not exist.
func (r *Report) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("making the report's folder: %w", err)
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	for name, content := range map[string][]byte{"report.json": append(text, '\n'), "report.md": []byte(r.Markdown())} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return fmt.Errorf("writing the report: %w", err)
		}
	}
	return nil
}
