package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Build builds the program cmd/consumer of the parent module into dir, and returns the path of the binary. race builds it with
// the race detector, which needs a C compiler.
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
	command.Dir = root // the program's go.mod selects the versions, not the one of this module
	command.Env = append(os.Environ(), "GOWORK=off")
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building cmd/consumer: %w\n%s", err, output)
	}
	return path, nil
}

// moduleRoot returns the folder of the module waterwheel, which is the parent of this module's folder.
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
