package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Build builds the program cmd/consumer of the module beside this one into a folder and returns the binary's path.
// With race it is built with the race detector, which needs a C compiler.
func Build(ctx context.Context, dir string, race bool) (string, error) {
	root, err := moduleRoot(ctx)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "consumer")
	args := []string{"build", "-o", path}
	if race {
		args = append(args, "-race")
	}
	command := exec.CommandContext(ctx, "go", append(args, "./cmd/consumer")...)
	command.Dir = root // its own go.mod decides about versions, not this module's
	command.Env = append(os.Environ(), "GOWORK=off")
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building cmd/consumer: %w\n%s", err, output)
	}
	return path, nil
}

// moduleRoot is the folder of the module waterwheel: the one above this module's.
func moduleRoot(ctx context.Context) (string, error) {
	output, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("asking go for this module's folder: %w", err)
	}
	root := filepath.Dir(filepath.Dir(strings.TrimSpace(string(output))))
	if _, err := os.Stat(filepath.Join(root, "cmd", "consumer")); err != nil {
		return "", fmt.Errorf("looking for cmd/consumer (run this inside e2e/): %w", err)
	}
	return root, nil
}
