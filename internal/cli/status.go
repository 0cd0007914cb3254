package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"waterwheel/internal/cli/text"
	"waterwheel/internal/status"
	"waterwheel/internal/words"
)

// watchInterval is the time between two requests of status --watch. statusTimeout is how long it waits for an answer.
const (
	watchInterval = 2 * time.Second
	statusTimeout = 5 * time.Second
)

// longestStatus bounds the size of an answer of /api/status, which has some 500 bytes per partition.
const longestStatus = 64 << 20

// consumerSeen is the answer of one running consumer.
type consumerSeen struct {
	URL    string         `json:"url"`
	Status *status.Report `json:"status,omitempty"`
	Hour   *status.Hour   `json:"hour,omitempty"`
	Err    string         `json:"err,omitempty"` // why there is no answer
	silent bool           // nothing answers at the address
}

// well reports whether the consumer answered, and is ready.
func (s *consumerSeen) well() bool { return s.Err == "" && len(s.Status.NotReady) == 0 }

func (p *Program) statusCommand() *cobra.Command {
	var of []string
	var watch, group bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the status of running consumers",
		Long: "Asks running consumers for their status (/api/status and /api/hour of HTTP_ADDR). For each it shows one sentence about its\n" +
			"state, its last hour, its partitions, and the members of its group. Without --of it asks the consumer of this machine,\n" +
			"at HTTP_ADDR. With --group it also asks all other members whose pages can be reached. Exit code 3: a consumer is not\n" +
			"ready, or does not answer.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			urls, err := p.consumerURLs(of)
			if err != nil {
				return err
			}
			if !watch {
				return p.showStatus(cmd.Context(), urls, group)
			}
			if p.output == "json" {
				return usageError{errors.New("--watch cannot be combined with --output json: run the command repeatedly instead")}
			}
			return p.watchStatus(cmd.Context(), urls, group)
		},
	}
	cmd.Flags().StringSliceVar(&of, "of", nil, "addresses of consumers, separated by commas, such as http://host:9464")
	cmd.Flags().BoolVar(&group, "group", false, "also ask the other members of the group")
	cmd.Flags().BoolVar(&watch, "watch", false, "show the status again every two seconds, until Ctrl-C")
	p.outputFlag(cmd, "table")
	return cmd
}

// consumerURLs returns the addresses to ask.
func (p *Program) consumerURLs(of []string) (urls []string, err error) {
	if len(of) == 0 {
		own, err := p.consumerURL()
		return []string{own}, err
	}
	for _, one := range of {
		if !strings.Contains(one, "://") {
			one = "http://" + one
		}
		parsed, err := url.Parse(one)
		if err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" {
			return nil, usageError{fmt.Errorf("--of has %q, which is not an address such as http://host:9464", one)}
		}
		urls = append(urls, strings.TrimSuffix(one, "/"))
	}
	return urls, nil
}

// consumerURL returns the address of the consumer on this host, from HTTP_ADDR.
func (p *Program) consumerURL() (string, error) {
	address, set := p.Lookup("HTTP_ADDR")
	if !set {
		address = "127.0.0.1:9464"
	}
	if address == "" {
		return "", usageError{errors.New("HTTP_ADDR is empty, so the consumer on this machine does not report its status: set HTTP_ADDR")}
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", usageError{fmt.Errorf("HTTP_ADDR is %q, which is not an address such as 127.0.0.1:9464: %w", address, err)}
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port), nil
}

func (p *Program) showStatus(ctx context.Context, urls []string, group bool) error {
	all := askConsumers(ctx, urls, group)
	err := p.show(all, func(w io.Writer) { p.printConsumers(w, all) })
	for i := range all {
		if err == nil && !all[i].well() {
			err = errFound
		}
	}
	return err
}

// watchStatus shows the status repeatedly until the context ends.
func (p *Program) watchStatus(ctx context.Context, urls []string, group bool) error {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		var frame strings.Builder
		p.printConsumers(&frame, askConsumers(ctx, urls, group))
		if ctx.Err() != nil {
			return nil
		}
		if p.screen != (terminal{}) {
			const clear = "\x1b[H\x1b[2J"
			frame := strings.SplitAfter(frame.String(), "\n")
			frame = frame[:min(len(frame), max(1, p.screen.height-1))]
			fmt.Fprint(p.Stdout, clear, strings.Join(frame, ""))
		} else {
			fmt.Fprintln(p.Stdout, frame.String())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// askConsumers asks consumers, and with group also the other members of their groups. It returns the answers in the order of the
// addresses, and then of the members.
func askConsumers(ctx context.Context, urls []string, group bool) []consumerSeen {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	all := askAll(ctx, urls)
	if group {
		all = append(all, askAll(ctx, otherPages(all))...)
	}
	return all
}

// otherPages returns the addresses of the members that have not been asked.
func otherPages(asked []consumerSeen) (pages []string) {
	known := map[string]bool{} // by the name of the member
	for i := range asked {
		for _, m := range asked[i].members() {
			known[m.Name] = known[m.Name] || m.This
		}
	}
	for i := range asked {
		for _, m := range asked[i].members() {
			if m.Page != "" && !known[m.Name] {
				known[m.Name] = true
				pages = append(pages, strings.TrimSuffix(m.Page, "/"))
			}
		}
	}
	return pages
}

// members returns the members that the consumer knows. It returns none if the consumer did not answer.
func (s *consumerSeen) members() []status.Member {
	if s.Status == nil {
		return nil
	}
	return s.Status.Members
}

// askAll asks all consumers at once. It returns the answers in the order of the addresses.
func askAll(ctx context.Context, urls []string) []consumerSeen {
	all := make([]consumerSeen, len(urls))
	var asking sync.WaitGroup
	for i, of := range urls {
		asking.Go(func() { all[i] = askConsumer(ctx, of) })
	}
	asking.Wait()
	return all
}

func askConsumer(ctx context.Context, of string) consumerSeen {
	seen := consumerSeen{URL: of, Status: new(status.Report), Hour: new(status.Hour)}
	err := getJSON(ctx, of+"/api/status", seen.Status)
	if err == nil {
		err = getJSON(ctx, of+"/api/hour", seen.Hour)
	}
	if err != nil {
		return consumerSeen{URL: of, Err: err.Error(), silent: errors.As(err, new(silence))}
	}
	return seen
}

// silence is the reason why nothing answers at an address.
type silence struct{ error }

// get requests one page of a consumer.
func get(ctx context.Context, page string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, page, http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	var failed *url.Error
	if errors.As(err, &failed) { // the message repeats the address
		err = failed.Err
	}
	if err != nil {
		return nil, silence{err}
	}
	return answer, nil
}

// getJSON reads one JSON page of a consumer.
func getJSON(ctx context.Context, from string, into any) error {
	answer, err := get(ctx, from)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s: is this the address of a consumer of this version?", from, answer.Status)
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, longestStatus)).Decode(into); err != nil {
		return fmt.Errorf("%s is not the status of a consumer: %w", from, err)
	}
	return nil
}

// healthTimeout bounds the wait for the answer.
const healthTimeout = 3 * time.Second

// healthCommand asks for the health of the consumer. A container without a shell has no other program for that.
func (p *Program) healthCommand() *cobra.Command {
	var ready bool
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask the consumer of this machine whether it is alive, or ready",
		Long: "Asks /healthz at HTTP_ADDR, or /readyz with --ready, and prints the answer. The exit code is 1 if the consumer does\n" +
			"not answer, or answers that it is not ready. Use it as the health check of a container without a shell.",
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
	cmd.Flags().BoolVar(&ready, "ready", false, "ask whether the consumer is ready, not only whether it is alive")
	return cmd
}

// askHealth returns the answer of a health page. It returns an error if the status is not 200.
func askHealth(ctx context.Context, page string) (answer string, err error) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	response, err := get(ctx, page)
	if err != nil {
		return "", fmt.Errorf("the consumer does not answer at %s: %w. Possible causes: the consumer does not run, or has another HTTP_ADDR", page, err)
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

// printConsumers prints the state of each consumer.
func (p *Program) printConsumers(w io.Writer, all []consumerSeen) {
	for i := range all {
		if i > 0 {
			fmt.Fprintln(w)
		}
		seen := &all[i]
		if seen.Err != "" {
			fmt.Fprintf(w, "%s does not answer: %s\n", seen.URL, text.Printable(seen.Err))
			if seen.silent {
				fmt.Fprintln(w, "  Is the consumer running, and is this its HTTP_ADDR? By default a consumer answers its own machine only. --of asks other addresses.")
			}
			continue
		}
		s := seen.Status
		fmt.Fprintf(w, "%s  group %s, generation %d, version %s\n", seen.URL, text.Printable(s.Group), s.Generation, text.Printable(s.Version))
		fmt.Fprintln(w, text.Printable(s.Headline.Text))
		for _, others := range [][]status.Notice{s.NotReady, s.Degraded} {
			for _, n := range others {
				if !strings.Contains(s.Headline.Text, n.Text) {
					fmt.Fprintln(w, "  "+text.Printable(n.Text))
				}
			}
		}
		if about := s.Headline.Runbook; about != "" {
			fmt.Fprintf(w, "What to do: %s/docs/runbook.md#%s\n", seen.URL, text.Printable(about))
		}
		p.printHour(w, seen.Hour)
		printPartitions(w, s)
	}
	shown := map[string]bool{} // groups
	for i := range all {
		if s := all[i].Status; s != nil && len(s.Members) > 1 && !shown[s.Group] {
			shown[s.Group] = true
			printMembers(w, s, len(all) == 1)
		}
	}
}

// printHour prints the four values of the last hour, each as a line of bars.
func (p *Program) printHour(w io.Writer, h *status.Hour) {
	const bars = 60
	levels := []rune("▁▂▃▄▅▆▇█")
	if p.screen == (terminal{}) || !p.showsUnicode() {
		levels = []rune("_.:-=+*#@")
	}
	fmt.Fprintln(w)
	for _, line := range []struct {
		name   string
		values []*float64
		number func(float64) string
	}{
		{"stored per second", h.Stored, status.Count},
		{"freshness", h.Freshness, status.Age},
		{"lag, in records", h.Lag, status.Count},
		{"dead letters", h.DeadLetters, status.Count},
	} {
		most := 0.0
		for _, v := range line.values {
			if v != nil {
				most = max(most, *v)
			}
		}
		drawn := make([]rune, bars)
		for i := range drawn {
			level := -1
			for _, v := range line.values[i*len(line.values)/bars : (i+1)*len(line.values)/bars] {
				if v != nil {
					level = max(level, int(*v/max(most, 1)*float64(len(levels)-1)))
				}
			}
			drawn[i] = ' '
			if level >= 0 {
				drawn[i] = levels[level]
			}
		}
		now := text.Unknown
		if n := len(line.values); n > 0 && line.values[n-1] != nil {
			now = line.number(*line.values[n-1])
		} else if n > 1 && line.values[n-2] != nil { // the interval has just begun
			now = line.number(*line.values[n-2])
		}
		fmt.Fprintf(w, "%-17s %8s  |%s|  at most %s\n", line.name, now, string(drawn), line.number(most))
	}
	fmt.Fprintln(w)
}

func printPartitions(w io.Writer, s *status.Report) {
	table := text.NewTable(w, "PARTITION", "STATE", "LAG", "FRESHNESS", "WAITING", "BUCKETS", "COMMITTED")
	for i := range s.Partitions {
		one := &s.Partitions[i]
		state := one.State
		for _, why := range []string{one.StopReason, one.Failure} {
			if why != "" {
				state += ": " + text.Shorten(why, 60)
			}
		}
		if one.Paused != "" {
			state += ", paused: " + one.Paused
		}
		table.Row(one.Partition, state, text.Number(one.Lag), text.Seconds(one.FreshnessSeconds), one.Pending, one.OpenBuckets, text.Number(one.Committed))
	}
	table.Flush()
}

// printMembers prints the members of the group. alone means that only one consumer is shown, so its own row is marked.
func printMembers(w io.Writer, s *status.Report, alone bool) {
	fmt.Fprintln(w)
	silent := 0
	table := text.NewTable(w, "MEMBER", "ADDRESS", "COUNT", "PARTITIONS")
	for i := range s.Members {
		m := &s.Members[i]
		name := m.Name
		switch {
		case m.This && alone:
			name += " (this consumer)"
		case m.Foreign:
			name += " (another program)"
		}
		if m.Page == "" && !m.This && !m.Foreign {
			silent++
		}
		table.Row(name, cmp.Or(m.Page, m.Host), m.Count(), text.Fit(w, m.Listed(), 60))
	}
	table.Flush()
	if silent > 0 {
		fmt.Fprintf(w, "%s %s no address for --group: HTTP_ADDR is empty, or answers that machine only. --of asks addresses that you name.\n",
			words.Count(silent, "member"), words.Form(silent, "announces", "announce"))
	}
}
