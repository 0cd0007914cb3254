package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"waterwheel/config"
)

const unitFile = "systemd/waterwheel.service"

// TestUnitIsValidAndConfined: systemd itself finds no fault with the unit, and little that the service could do to the machine.
func TestUnitIsValidAndConfined(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed: Debian's package systemd has it")
	}
	// The program stands where this test is, so that systemd finds it.
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(t.TempDir(), "waterwheel.service")
	text := strings.ReplaceAll(readFile(t, unitFile), "/usr/local/bin/waterwheel", program)
	if err := os.WriteFile(unit, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"verify", unit}, {"security", "--offline=true", "--threshold=20", unit}} {
		out, err := exec.CommandContext(t.Context(), analyze, args...).CombinedOutput()
		if err != nil || args[0] == "verify" && len(out) > 0 {
			t.Errorf("systemd-analyze %s: %v\n%s", args[0], err, out)
		}
	}
}

// TestUnitFitsTheProgram: its times and names are those of the settings.
func TestUnitFitsTheProgram(t *testing.T) {
	text := readFile(t, unitFile)
	field := func(name string) []string {
		var values []string
		for _, found := range regexp.MustCompile(`(?m)^#?`+name+`=(.*)$`).FindAllStringSubmatch(text, -1) {
			values = append(values, found[1])
		}
		return values
	}
	secrets := map[string]string{}
	for _, pair := range field("LoadCredential") {
		name, _, _ := strings.Cut(pair, ":")
		secrets["%d/"+name] = name
	}
	for _, pair := range field("Environment") {
		variable, path, _ := strings.Cut(pair, "=")
		name, isFile := strings.CutSuffix(variable, "_FILE")
		if !isFile || !strings.Contains(config.Markdown(), "| `"+name+"` |") || secrets[path] == "" {
			t.Errorf("Environment=%s names no setting, or no credential", pair)
		}
		delete(secrets, path)
	}
	if len(secrets) > 0 {
		t.Errorf("the credentials %v are not used", secrets)
	}
	shutdown := regexp.MustCompile("`SHUTDOWN_TIMEOUT` \\| `(\\w+)`").FindStringSubmatch(config.Markdown())
	least, err := time.ParseDuration(shutdown[1])
	if err != nil {
		t.Fatal(err)
	}
	stop, err := time.ParseDuration(strings.Join(field("TimeoutStopSec"), ""))
	if err != nil || stop <= least {
		t.Errorf("TimeoutStopSec=%v (%v) is not more than SHUTDOWN_TIMEOUT=%v", stop, err, least)
	}
	for name, want := range map[string]string{"Type": "notify", "WatchdogSec": "30s", "ExecStart": "/usr/local/bin/waterwheel run"} {
		if got := strings.Join(field(name), ""); got != want {
			t.Errorf("%s=%s, want %s", name, got, want)
		}
	}
}
