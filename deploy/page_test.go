package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const page = "../docs/deploy.md"

// commandsOf are the commands of the page: its indented lines.
func commandsOf(t *testing.T) (commands []string) {
	t.Helper()
	for _, found := range regexp.MustCompile(`(?m)^    (\S.*)$`).FindAllStringSubmatch(readFile(t, page), -1) {
		if command, _, _ := strings.Cut(found[1], "    #"); !strings.HasPrefix(found[1], "- ") {
			commands = append(commands, strings.TrimSpace(command))
		}
	}
	return commands
}

// TestCommandsOfThePageNameWhatIsThere: files, targets of make, and commands and flags of the program.
func TestCommandsOfThePageNameWhatIsThere(t *testing.T) {
	makefile := readFile(t, "../Makefile")
	var help string
	files, err := filepath.Glob("../internal/cli/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		help += readFile(t, name)
	}
	commands := commandsOf(t)
	for _, command := range commands {
		for _, path := range regexp.MustCompile(`\bdeploy/[\w./]+`).FindAllString(command, -1) {
			if _, err := os.Stat(filepath.Join("..", path)); err != nil {
				t.Errorf("%s: %v", command, err)
			}
		}
		words := strings.Fields(command)
		switch {
		case words[0] == "make" && !strings.Contains(makefile, "\n"+words[1]+": "):
			t.Errorf("%s: there is no such target", command)
		case words[0] == "waterwheel" && !strings.Contains(help, `Use:   "`+words[1]+`"`):
			t.Errorf("%s: there is no such command", command)
		}
	}
	if len(commands) < 25 {
		t.Errorf("only %d commands were found", len(commands))
	}
}

// TestPromtoolTakesThePage runs its commands for promtool, and lets promtool read its configuration of Prometheus.
func TestPromtoolTakesThePage(t *testing.T) {
	path, ran := promtool(t), 0
	for _, command := range commandsOf(t) {
		words := strings.Fields(command)
		if words[0] != "promtool" || slices.Contains(words, "test") { // another test runs the rules
			continue
		}
		ran++
		run := exec.CommandContext(t.Context(), path, words[1:]...)
		run.Dir = ".."
		if out, err := run.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
	}
	config := regexp.MustCompile("(?s)```yaml\n(scrape_configs:.*?)```").FindStringSubmatch(readFile(t, page))
	if config == nil || ran == 0 {
		t.Fatalf("the page has no configuration of Prometheus, or no commands of promtool (%d)", ran)
	}
	dir := t.TempDir()
	for name, content := range map[string]string{"prometheus.yml": config[1], "waterwheel.rules.yml": readFile(t, rulesFile)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), path, "check", "config", filepath.Join(dir, "prometheus.yml")).CombinedOutput(); err != nil {
		t.Errorf("promtool check config: %v\n%s", err, out)
	}
}

// TestServiceIsInstalledByThePage runs its commands in a folder that takes the place of the machine's root.
func TestServiceIsInstalledByThePage(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash to run the commands of the page with")
	}
	_, section, _ := strings.Cut(readFile(t, page), "\n## systemd\n")
	section, _, _ = strings.Cut(section, "\n## ")
	root := t.TempDir()
	for _, dir := range []string{"usr/local/bin", "etc/systemd/system"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "waterwheel"), []byte("#!/bin/true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	script := "set -eu\n"
	for _, found := range regexp.MustCompile(`(?m)^    (install|printf) (.*)$`).FindAllStringSubmatch(section, -1) {
		command := found[1] + " " + found[2]
		command = regexp.MustCompile(` (/etc|/usr)/`).ReplaceAllString(command, " "+root+"$1/")
		script += strings.NewReplacer("755 bin/waterwheel ", "755 "+root+"/waterwheel ").Replace(command) + "\n"
	}
	run := exec.CommandContext(t.Context(), bash, "-c", script)
	run.Dir = ".."
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s%s", err, script, out)
	}
	unit := readFile(t, unitFile)
	for _, named := range regexp.MustCompile(`(?m)^(?:EnvironmentFile=|LoadCredential=[\w-]+:|ExecStart=)(\S+)`).FindAllStringSubmatch(unit, -1) {
		if info, err := os.Stat(filepath.Join(root, named[1])); err != nil || info.Size() == 0 {
			t.Errorf("the unit needs %s, which the page does not install: %v", named[1], err)
		}
	}
	if secret, err := os.Stat(filepath.Join(root, "etc/waterwheel/mongodb-uri")); err != nil || secret.Mode().Perm() != 0o600 {
		t.Errorf("the secret may be read by others: %v, %v", secret, err)
	}
}
