package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Revision is the commit the program was built from, as far as the Go tool knew it.
func Revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	commit, modified := "unknown", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = "-modified"
		}
	}
	return commit + modified
}

// versionText is what "version" and --version print.
func (p *Program) versionText() string {
	return fmt.Sprintf("waterwheel %s (commit %s, %s, %s/%s)", p.Version, Revision(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func (p *Program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the program's version",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(p.Stdout, p.versionText())
			return err
		},
	}
}
