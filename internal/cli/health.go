package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// healthTimeout bounds the wait for the answer.
const healthTimeout = 3 * time.Second

// healthCommand asks for the health of the consumer: a container without a shell has no other program that could.
func (p *Program) healthCommand() *cobra.Command {
	var ready bool
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask the consumer of this machine whether it is alive, or reads",
		Long: "Asks /healthz at HTTP_ADDR, or /readyz with --ready, and prints the answer. The exit code is 1 where the consumer\n" +
			"does not answer, or answers that it is not ready. A container without a shell checks its health with it.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			url, err := p.consumerURL()
			if err != nil {
				return err
			}
			page := "/healthz"
			if ready {
				page = "/readyz"
			}
			answer, err := askHealth(cmd.Context(), url+page)
			fmt.Fprint(p.Stdout, answer)
			return err
		},
	}
	cmd.Flags().BoolVar(&ready, "ready", false, "ask whether it reads, not only whether it is alive")
	return cmd
}

// askHealth returns the answer of a page of health, or an error where its status is not 200.
func askHealth(ctx context.Context, page string) (answer string, err error) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, page, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", fmt.Errorf("the consumer does not answer: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return "", fmt.Errorf("reading the answer of %s: %w", page, err)
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answers %d: %s", page, response.StatusCode, strings.TrimSpace(string(body)))
	}
	return string(body), nil
}
