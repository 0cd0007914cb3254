package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
)

// version is set by the linker (-X main.version=…) in released builds.
var version = "dev"

// revision is the commit the program was built from, as far as the Go tool knew it.
func revision() string {
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
func versionText() string {
	return fmt.Sprintf("waterwheel %s (commit %s, %s, %s/%s)", version, revision(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func (p *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the program's version",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(p.stdout, versionText())
			return err
		},
	}
}

// registerBuildInfo adds waterwheel_build_info, which is always 1.
func registerBuildInfo(reg prometheus.Registerer) {
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "waterwheel_build_info",
		Help:        "The running program, in its labels.",
		ConstLabels: prometheus.Labels{"version": version, "revision": revision(), "goversion": runtime.Version()},
	}, func() float64 { return 1 }))
}
