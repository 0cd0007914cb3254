package bench

import (
	"context"
	"fmt"
	"math"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/load"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"waterwheel/e2e/check"
	"waterwheel/e2e/harness"
)

// unknown stands for an unknown figure.
const unknown = "–"

// Table returns a Markdown table. Its first row is the heading.
func Table(rows [][]string) string {
	var b strings.Builder
	for i, row := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	return b.String()
}

// Machine returns a Markdown list of the machine and the servers of a measurement.
func Machine(ctx context.Context, servers *harness.Servers) string {
	processor, busy, commit := unknown, 0.0, unknown
	if infos, err := cpu.InfoWithContext(ctx); err == nil && len(infos) > 0 {
		processor = strings.TrimSpace(infos[0].ModelName)
	}
	if average, err := load.AvgWithContext(ctx); err == nil {
		busy = average.Load1
	}
	if output, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=12").Output(); err == nil {
		commit = strings.TrimSpace(string(output))
	}
	return fmt.Sprintf("- %s: %s, %d cores; load %.1f at the beginning\n- Kafka: %s; MongoDB: %s; Go %s; commit %s\n",
		time.Now().UTC().Format(time.RFC3339), processor, runtime.NumCPU(), busy, kafkaVersion(ctx, servers), mongoVersion(ctx, servers),
		strings.TrimPrefix(runtime.Version(), "go"), commit)
}

// kafkaVersion guesses the version of the brokers from the requests that the first one supports.
func kafkaVersion(ctx context.Context, servers *harness.Servers) string {
	if !servers.GivenKafka {
		return "embedded (kfake: in memory, in the benchmark's own process)"
	}
	kafka, err := check.DialKafka(servers.Brokers)
	if err != nil {
		return unknown
	}
	defer kafka.Close()
	brokers, err := kafka.Admin.ApiVersions(ctx)
	if sorted := brokers.Sorted(); err == nil && len(sorted) > 0 && sorted[0].Err == nil {
		return sorted[0].VersionGuess()
	}
	return unknown
}

func mongoVersion(ctx context.Context, servers *harness.Servers) string {
	if !servers.GivenMongo {
		return "embedded (FerretDB on SQLite, in the benchmark's own process)"
	}
	var info struct {
		Version  string        `bson:"version"`
		FerretDB bson.RawValue `bson:"ferretdb"`
		Commit   string        `bson:"gitVersion"`
	}
	err := check.WithDatabase(ctx, servers.MongoURI, "admin", func(admin *mongo.Database) error {
		return admin.RunCommand(ctx, bson.D{{Key: "buildInfo", Value: 1}}).Decode(&info)
	})
	switch {
	case err != nil:
		return unknown
	case !info.FerretDB.IsZero():
		return info.Version + " (FerretDB)"
	case len(info.Commit) < 40:
		return info.Version + " (by its own word; not MongoDB's own program)"
	}
	return info.Version
}

// spread formats the median of some figures, with the least and the greatest in brackets. Without figures, or with a negative
// one, it is unknown.
func spread(figures []float64, write func(float64) string) string {
	sorted := slices.Sorted(slices.Values(figures))
	n := len(sorted)
	if n == 0 || sorted[0] < 0 {
		return unknown
	}
	median := write((sorted[(n-1)/2] + sorted[n/2]) / 2)
	if sorted[0] == sorted[n-1] {
		return median
	}
	return fmt.Sprintf("%s (%s–%s)", median, write(sorted[0]), write(sorted[n-1]))
}

// micros formats a processor time in microseconds, which is unknown if it is negative.
func micros(x float64) string {
	if x < 0 {
		return unknown
	}
	return digits(x) + " µs"
}

// thousands formats a number with three significant digits, such as 155 k or 1.21 M.
func thousands(x float64) string {
	switch {
	case x >= 999_500:
		return digits(x/1e6) + " M"
	case x >= 999.5:
		return digits(x/1e3) + " k"
	}
	return digits(x)
}

// digits formats a number with three significant digits, or with all digits before the point.
func digits(x float64) string {
	if x == 0 {
		return "0"
	}
	decimals := 2 - int(math.Floor(math.Log10(math.Abs(x))))
	return fmt.Sprintf("%.*f", min(max(decimals, 0), 6), x)
}
