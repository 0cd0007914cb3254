package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waterwheel/config"
)

// healthTimeout bounds the answer of a consumer that is well.
const healthTimeout = 3 * time.Second

// healthCommand is for supervisors of containers in which there is nothing else that can ask.
func (p *program) healthCommand() *cobra.Command {
	var ready bool
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask the consumer of this machine whether it is alive, or reads",
		Long: "Asks /healthz at HTTP_ADDR, or /readyz with --ready, and prints the answer. The exit code is 1 where the consumer\n" +
			"does not answer, or answers that it is not ready. A container without a shell checks its health so.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := config.Load(p.lookup, p.environ)
			if err != nil {
				return err
			}
			path := "/healthz"
			if ready {
				path = "/readyz"
			}
			answer, err := askHealth(cmd.Context(), c.Service.HTTPAddr, path)
			fmt.Fprint(p.stdout, answer)
			return err
		},
	}
	cmd.Flags().BoolVar(&ready, "ready", false, "ask whether it reads, not only whether it is alive")
	return cmd
}

// askHealth asks the consumer that listens at an address of this machine.
func askHealth(ctx context.Context, address, path string) (answer string, err error) {
	if address == "" {
		return "", fmt.Errorf("HTTP_ADDR is empty: the consumer answers nobody")
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("HTTP_ADDR=%s: %w", address, err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+path, http.NoBody)
	if err != nil {
		return "", fmt.Errorf("asking %s: %w", path, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", fmt.Errorf("asking %s: %w", path, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return "", fmt.Errorf("reading the answer of %s: %w", path, err)
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answers %d: %s", path, response.StatusCode, strings.TrimSpace(string(body)))
	}
	return string(body), nil
}
