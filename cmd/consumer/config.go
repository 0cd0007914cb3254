package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"waterwheel/cmd/consumer/internal/text"
	"waterwheel/config"
)

func (p *program) configCommand() *cobra.Command {
	var markdown bool
	var output string
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the settings in effect, secrets masked",
		Long:  "Prints every setting as NAME=value, secrets masked, or says everything that is wrong with them.",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			if markdown {
				_, err := io.WriteString(p.stdout, config.Markdown())
				return err
			}
			if output != "text" && output != "json" {
				return usageError{fmt.Errorf("--output is %q: text or json", output)}
			}
			c, err := config.Load(p.lookup, p.environ)
			if err != nil {
				return err
			}
			return printSettings(p.stdout, c, output)
		},
	}
	cmd.Flags().BoolVar(&markdown, "markdown", false, "print the reference of all settings instead")
	cmd.Flags().StringVar(&output, "output", "text", "text or json")
	return cmd
}

func printSettings(w io.Writer, c config.Config, output string) error {
	if output == "json" {
		return text.WriteJSON(w, c.Settings())
	}
	for _, s := range c.Settings() {
		if _, err := fmt.Fprintf(w, "%s=%s\n", s.Name, s.Value); err != nil {
			return err
		}
	}
	return nil
}
