package bench

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"strings"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/load"
	"github.com/shirou/gopsutil/v4/mem"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/e2e/harness"
)

// Machine describes the machine and the servers of a measurement. A value is empty if it is unknown.
type Machine struct {
	Processor string `json:"processor"`
	Cores     int    `json:"cores"`
	// Memory is the memory of the machine in bytes.
	Memory uint64 `json:"memory_bytes"`
	// Load is the load average of the last minute before the first round.
	Load float64 `json:"load"`
	// Kafka and MongoDB are the versions of the servers, with further details.
	Kafka   string `json:"kafka"`
	MongoDB string `json:"mongodb"`
	Go      string `json:"go"`
	// Commit is the commit of the source, with "-dirty" if files differ from it.
	Commit string `json:"commit"`
}

// Look returns the data of the machine and the servers.
func Look(ctx context.Context, servers *harness.Servers) Machine {
	m := Machine{Cores: runtime.NumCPU(), Go: strings.TrimPrefix(runtime.Version(), "go")}
	if infos, err := cpu.InfoWithContext(ctx); err == nil && len(infos) > 0 {
		m.Processor = strings.TrimSpace(infos[0].ModelName)
	}
	if memory, err := mem.VirtualMemoryWithContext(ctx); err == nil {
		m.Memory = memory.Total
	}
	if average, err := load.AvgWithContext(ctx); err == nil {
		m.Load = average.Load1
	}
	if output, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=12").Output(); err == nil {
		m.Commit = strings.TrimSpace(string(output))
	}
	m.Kafka, m.MongoDB = kafkaVersion(ctx, servers), mongoVersion(ctx, servers)
	return m
}

// kafkaVersion guesses the version of a broker from the requests it supports.
func kafkaVersion(ctx context.Context, servers *harness.Servers) string {
	if !servers.GivenKafka {
		return "embedded (kfake: in memory, in the benchmark's own process)"
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(servers.Brokers, ",")...))
	if err != nil {
		return ""
	}
	defer client.Close()
	answer, err := kmsg.NewPtrApiVersionsRequest().RequestWith(ctx, client)
	if err != nil {
		return ""
	}
	return kversion.FromApiVersionsResponse(answer).VersionGuess()
}

func mongoVersion(ctx context.Context, servers *harness.Servers) string {
	if !servers.GivenMongo {
		return "embedded (FerretDB on SQLite, in the benchmark's own process)"
	}
	client, err := connect(servers.MongoURI)
	if err != nil {
		return ""
	}
	defer client.Disconnect(context.WithoutCancel(ctx))
	var info struct {
		Version  string        `bson:"version"`
		FerretDB bson.RawValue `bson:"ferretdb"`
		Commit   string        `bson:"gitVersion"`
	}
	if err := client.Database("admin").RunCommand(ctx, bson.D{{Key: "buildInfo", Value: 1}}).Decode(&info); err != nil {
		return ""
	}
	switch {
	case !info.FerretDB.IsZero():
		return info.Version + " (FerretDB)"
	case len(info.Commit) < 40:
		return fmt.Sprintf("%s (by its own word; not MongoDB's own program)", info.Version)
	}
	return info.Version
}
