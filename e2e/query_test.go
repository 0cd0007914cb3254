package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/e2e/events"
)

// The consumer stores the sensors' measurements, and `waterwheel query` runs as a reader would run it.

// readingNoon is the time of the first measurement of the old ones.
var readingNoon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// sensors are the sensors of the tests of reading. Two are in the north, and one is in the south.
var sensors = []bson.D{
	{{Key: "sensor", Value: "s-17"}, {Key: "site", Value: "north"}},
	{{Key: "sensor", Value: "s-18"}, {Key: "site", Value: "north"}},
	{{Key: "sensor", Value: "s-19"}, {Key: "site", Value: "south"}},
}

// readingsEach is the number of measurements of each sensor in each of the two periods.
const readingsEach = 60

// newReadings stores measurements of sensors in the time series "measurements". They are a minute apart within the hour after
// noon, and 20 seconds apart before now. s-19 also has one of 1969. All of s-17 have a humidity, and no others.
func newReadings(t *testing.T) *stream {
	t.Helper()
	s := newStream(t, 2).inBuckets()
	s.settings = s.settings.With("MONGODB_COLLECTION", "measurements", "EVENT_TIME_MIN", "1960-01-01T00:00:00Z")
	now := time.Now().Truncate(time.Second)
	var all []events.Event
	add := func(sensor int, at time.Time, n int) {
		fields := bson.D{{Key: "celsius", Value: 20 + float64(sensor) + float64(n%10)/4}}
		if sensor == 0 {
			fields = append(fields, bson.E{Key: "humidity", Value: int32(40 + n%5)})
		}
		all = append(all, events.Of(events.Reading{Time: at.UnixMilli(), Meta: sensors[sensor], Fields: fields}))
	}
	add(2, time.Date(1969, 7, 20, 20, 17, 40, 0, time.UTC), 0)
	for sensor := range sensors {
		for n := range readingsEach {
			add(sensor, readingNoon.Add(time.Duration(n)*time.Minute), n)
			add(sensor, now.Add(-time.Duration(readingsEach-n)*20*time.Second), n)
		}
	}
	if err := s.producer.Send(within(t, 20*time.Second), all...); err != nil {
		t.Fatal(err)
	}
	s.catchUp()
	return s
}

// query runs waterwheel query with only MongoDB's settings.
func (s *stream) query(args ...string) (code int, stdout, stderr string) {
	s.t.Helper()
	run, out, errs := s.queryProcess(within(s.t, 30*time.Second), args...)
	err := run.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		s.t.Fatal(err)
	}
	return run.ProcessState.ExitCode(), out.String(), errs.String()
}

func (s *stream) queryProcess(ctx context.Context, args ...string) (run *exec.Cmd, stdout, stderr *bytes.Buffer) {
	run = exec.CommandContext(ctx, world.binary, append([]string{"query"}, args...)...)
	run.Env = []string{"MONGODB_URI=" + s.settings["MONGODB_URI"], "MONGODB_DATABASE=" + s.database}
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	run.Stdout, run.Stderr = stdout, stderr
	return run, stdout, stderr
}

// TestQuery checks that stored measurements are printed in every format, and that missing ones are explained.
func TestQuery(t *testing.T) {
	t.Parallel()
	s := newReadings(t)
	march := []string{"--from", "2026-03-01", "--to", "2026-03-02"}
	for name, c := range map[string]struct {
		args  []string
		lines int // number of lines on stdout. -1 means not counted.
		out   string
		err   string // Empty means nothing on stderr.
	}{
		"everything":   {[]string{"--format", "json"}, 6*readingsEach + 1, `"meta":{"sensor":"s-17","site":"north"},"celsius":20.0,"humidity":40}`, ""},
		"a table":      {append(march, "sensor=s-17"), readingsEach + 1, "time                      sensor  site   celsius  humidity\n2026-03-01T12:00:00.000Z  s-17    north       20        40\n", ""},
		"fields":       {append(march, "sensor=s-17", "celsius"), readingsEach + 1, "time                      sensor  site   celsius\n", ""},
		"two sites":    {append(march, "site=north,south", "--format", "csv"), 3*readingsEach + 1, "time,sensor,site,celsius,humidity\n", ""},
		"all but one":  {append(march, "sensor!=s-17", "--format", "json"), 2 * readingsEach, `"sensor":"s-18"`, ""},
		"a whole meta": {append(march, `meta={"site":"north","sensor":"s-18"}`, "--format", "json"), readingsEach, `"sensor":"s-18"`, ""},
		"a filter":     {append(march, "--filter", `{"meta.sensor": {"$gt": "s-18"}}`, "--format", "json"), readingsEach, `"sensor":"s-19"`, ""},
		"a limit":      {[]string{"--limit", "3", "--format", "json"}, 3, "", ""},
		"the newest":   {[]string{"--latest", "--format", "json"}, 3, `"celsius":22.25,"humidity":44}`, ""},
		"the series":   {[]string{"--series"}, 3, "sensor=s-17 site=north\nsensor=s-18 site=north\nsensor=s-19 site=south\n", ""},
		"before 1970":  {[]string{"--to", "1970-01-01", "--output", "json"}, 1, `{"time":{"$date":{"$numberLong":"-14182940000"}},"meta":{"sensor":"s-19","site":"south"},"celsius":22.0}`, ""},
		"the last":     {[]string{"sensor=s-19", "--last", "5m", "--format", "json"}, -1, `"sensor":"s-19"`, ""},
		"a plot":       {append(march, "--plot", "celsius"), -1, "* sensor=s-17 site=north  min 20  mean 21.125  max 22.25  last 22.25  of 60\n", ""},
		"rows, a plot": {append(march, "sensor=s-17", "humidity", "--plot", "celsius"), -1, "\n\ncelsius, 2026-03-01 00:00:00 to 2026-03-02 00:00:00 UTC\n", ""},
		"no series":    {[]string{"sensor=s-99"}, 0, "", `No series matches sensor=s-99. There is sensor=s-17 site=north, for example; "waterwheel query measurements --series" lists all.`},
		"no such part": {[]string{"senser=s-17"}, 0, "", `The meta has no "senser": it has sensor, site.`},
		"a value":      {[]string{"celsius=20"}, 0, "", `"celsius" is a field of the measurements: conditions are on the meta, which has sensor, site.`},
		"no time":      {[]string{"sensor=s-17", "--from", "2026-03-02", "--to", "2026-03-03"}, 0, "", "No measurement of sensor=s-17 from 2026-03-02T00:00:00Z to 2026-03-03T00:00:00Z: the newest of them is at "},
		"no field":     {append(march, "sensor=s-17", "celcius"), readingsEach + 1, "celcius\n", "None of the 60 measurements has celcius. Existing fields: celsius, humidity."},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := s.query(append([]string{"measurements"}, c.args...)...)
			if lines := strings.Count(out, "\n"); code != 0 || c.lines >= 0 && lines != c.lines || !strings.Contains(out, c.out) ||
				!strings.Contains(errs, c.err) || c.err == "" && errs != "" {
				t.Errorf("exit code %d, %d lines, want %d with %q, and %q on stderr:\n%s\nstderr: %s", code, lines, c.lines, c.out, c.err, out, errs)
			}
		})
	}
	t.Run("csv", func(t *testing.T) {
		_, out, _ := s.query("measurements", "--format", "csv")
		records, err := csv.NewReader(strings.NewReader(out)).ReadAll()
		if err != nil || len(records) != 6*readingsEach+2 {
			t.Errorf("%d records, %v", len(records), err)
		}
	})
	t.Run("json", func(t *testing.T) {
		_, out, _ := s.query("measurements", "--series", "--format", "json")
		for line := range strings.Lines(out) {
			if !json.Valid([]byte(line)) {
				t.Errorf("%q is no JSON", line)
			}
		}
	})
}

// TestQueryRefuses checks that impossible queries fail before anything is read, and checks the exit codes.
func TestQueryRefuses(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	s.catchUp()
	for name, c := range map[string]struct {
		args []string
		code int
		err  string
	}{
		"no collection":  {nil, 2, "which time series? Give its collection first"},
		"another":        {[]string{"nothing"}, 1, `has no time series "nothing"; it has ` + s.topic},
		"a filter":       {[]string{s.topic, "--filter", `{"sensor": 1}`}, 2, "sensor is not part of the meta"},
		"nothing stored": {[]string{s.topic}, 0, s.topic + " has no measurements yet."},
	} {
		if code, out, errs := s.query(c.args...); code != c.code || !strings.Contains(errs, c.err) || out != "" {
			t.Errorf("%s: exit code %d, %q on stderr, want %d and %q", name, code, errs, c.code, c.err)
		}
	}
	s.settings = s.settings.With("MONGODB_URI", "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=300")
	if code, _, errs := s.query(s.topic); code != 1 || !strings.Contains(errs, "MongoDB is not reachable: 127.0.0.1:1: ") {
		t.Errorf("exit code %d, %q", code, errs)
	}
}

// TestQueryEndsWithItsReader checks that a closed pipe is not reported as an error.
func TestQueryEndsWithItsReader(t *testing.T) {
	t.Parallel()
	s := newReadings(t)
	ctx := within(t, 30*time.Second)
	run, _, errs := s.queryProcess(ctx, "measurements", "--follow")
	run.Stdout = nil
	reading, err := run.StdoutPipe()
	if err == nil {
		err = run.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	reading.Close()
	go s.keepSending(ctx)
	c := s.start()
	_ = run.Wait()
	s.terminate(c)
	if status, ok := run.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != syscall.SIGPIPE || errs.Len() > 0 {
		t.Errorf("it ended with %v and said %q", run.ProcessState, errs)
	}
}

// keepSending sends a measurement again and again until the context ends.
func (s *stream) keepSending(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		_ = s.producer.Send(ctx, events.Of(events.Reading{
			Time: time.Now().UnixMilli(), Meta: sensors[0], Fields: bson.D{{Key: "celsius", Value: float64(n)}, {Key: "number", Value: int32(n)}},
		}))
		time.Sleep(50 * time.Millisecond)
	}
}

// TestQueryFollows checks that each measurement stored after the start is printed once, and soon, until ctrl-C, which is no
// failure.
func TestQueryFollows(t *testing.T) {
	t.Parallel()
	s := newReadings(t)
	ctx := within(t, 60*time.Second)
	run, _, errs := s.queryProcess(ctx, "measurements", "sensor=s-17", "--follow", "--format", "csv", "number")
	run.Stdout = nil
	reading, err := run.StdoutPipe()
	if err == nil {
		err = run.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	sending, stop := context.WithCancel(ctx)
	c := s.start()
	go s.keepSending(sending)
	lines := bufio.NewScanner(reading)
	seen := map[string]bool{}
	for len(seen) < 20 && lines.Scan() {
		fields := strings.Split(lines.Text(), ",")
		if number := fields[len(fields)-1]; seen[number] {
			t.Errorf("%s came twice", lines.Text())
		} else {
			seen[number] = true
		}
	}
	if !seen["number"] || len(seen) < 20 {
		t.Errorf("only %v were printed; %s", seen, errs)
	}
	for n := range 5 {
		if !seen[fmt.Sprint(n)] && !seen[fmt.Sprint(n+5)] {
			t.Logf("number %d was stored before the following began", n)
		}
	}
	if err := run.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	go func() {
		for lines.Scan() {
		}
	}()
	if err := run.Wait(); err != nil || errs.Len() > 0 {
		t.Errorf("after ctrl-C: %v, %s", err, errs)
	}
	stop()
	s.terminate(c)
}
