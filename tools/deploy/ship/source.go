// Package ship makes the image and the files of a release. The same commit and the same Go give the same bytes, at any time and
// place.
//
//	source.go   the repository at a commit, and programs built of it
//	image.go    the image, as a layout of the Open Container Initiative, with the authorities that it trusts
//	release.go  the files of a release, and their archives; notices.go: licences and the bill of materials
package ship

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Source is the repository at one commit.
type Source struct {
	// Root is the folder of a clone, so that uncommitted changes have no effect.
	Root string
	// Version is the name of the release, and Revision the commit.
	Version, Revision string
	// Time is the time of the commit. Every file of a release gets this time.
	Time time.Time

	// build returns the program for a platform.
	build func(context.Context, platform) ([]byte, error)
}

// Open clones the commit that is checked out in root. Close removes the clone. If version is empty, git describes the commit.
// SOURCE_DATE_EPOCH overrides the time of the commit, as in other reproducible builds.
func Open(ctx context.Context, root, version string) (*Source, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	s := &Source{Version: version}
	s.build = s.goBuild
	if s.Root, err = os.MkdirTemp("", "waterwheel"); err != nil {
		return nil, err
	}
	if err := s.clone(ctx, root); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close removes the clone.
func (s *Source) Close() error { return os.RemoveAll(s.Root) }

// clone clones the repository, and reads version, commit and time.
func (s *Source) clone(ctx context.Context, root string) (err error) {
	if _, err := s.run(ctx, nil, "git", "clone", "--quiet", "--local", root, s.Root); err != nil {
		return fmt.Errorf("cloning the repository: %w", err)
	}
	if s.Version == "" {
		if s.Version, err = s.run(ctx, nil, "git", "describe", "--tags", "--always"); err != nil {
			return fmt.Errorf("naming the version: %w", err)
		}
	}
	if s.Revision, err = s.run(ctx, nil, "git", "rev-parse", "HEAD"); err != nil {
		return fmt.Errorf("asking for the commit: %w", err)
	}
	seconds := os.Getenv("SOURCE_DATE_EPOCH")
	if seconds == "" {
		if seconds, err = s.run(ctx, nil, "git", "log", "-1", "--format=%ct"); err != nil {
			return fmt.Errorf("asking for the time of the commit: %w", err)
		}
	}
	epoch, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return fmt.Errorf("the time of the commit: %w", err)
	}
	s.Time = time.Unix(epoch, 0).UTC()
	return nil
}

// run runs a command in the root and returns its output, without surrounding space.
func (s *Source) run(ctx context.Context, env []string, name string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = s.Root
	command.Env = append(os.Environ(), env...)
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// platform is an operating system and an architecture for which the program is built.
type platform struct{ os, arch string }

func (p platform) executable() string {
	if p.os == "windows" {
		return "waterwheel.exe"
	}
	return "waterwheel"
}

// environment returns the environment of the go command, which does not depend on the user's own.
func (p platform) environment() []string {
	return []string{"CGO_ENABLED=0", "GOOS=" + p.os, "GOARCH=" + p.arch, "GOAMD64=v1", "GOARM64=v8.0", "GOWORK=off", "GOFLAGS=-mod=readonly"}
}

// goBuild builds the program for a platform and returns its bytes.
func (s *Source) goBuild(ctx context.Context, p platform) ([]byte, error) {
	dir, err := os.MkdirTemp("", "ship")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, p.executable())
	if _, err := s.run(ctx, p.environment(), "go", "build", "-trimpath", "-buildvcs=true",
		"-ldflags", "-s -w -buildid= -X main.version="+s.Version, "-o", out, "./cmd/consumer"); err != nil {
		return nil, fmt.Errorf("building for %s/%s: %w", p.os, p.arch, err)
	}
	return os.ReadFile(out)
}
