package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"waterwheel/config"
)

func (p *Program) configCommand() *cobra.Command {
	var markdown bool
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the settings in effect, secrets masked",
		Long:  "Prints every setting as NAME=value, secrets masked, or says everything that is wrong with them.",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			if markdown {
				_, err := io.WriteString(p.Stdout, config.Markdown())
				return err
			}
			c, err := config.Load(p.Lookup, p.Environ)
			if err != nil {
				return err
			}
			return p.show(c.Settings(), func(w io.Writer) {
				for _, s := range c.Settings() {
					fmt.Fprintf(w, "%s=%s\n", s.Name, s.Value)
				}
			})
		},
	}
	cmd.Flags().BoolVar(&markdown, "markdown", false, "print the reference of all settings instead")
	p.outputFlag(cmd, "text")
	return cmd
}
