package hostile

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"waterwheel/e2e/harness"
	"waterwheel/e2e/harness/proxy"
)

// patient contains settings for a slow database.
var patient = []string{
	"MONGODB_WRITE_TIMEOUT", "20s", "KAFKA_REBALANCE_TIMEOUT", "60s", "KAFKA_SESSION_TIMEOUT", "20s", "SHUTDOWN_TIMEOUT", "25s",
}

// TestMemoryWhenRecordsUnfold produces, in each of several partitions, a record of a few kilobytes that decompresses to most of
// the memory that a process may use.
func TestMemoryWhenRecordsUnfold(t *testing.T) {
	const partitions, limit = 8, 128 << 20
	for name, codec := range map[string]int16{"gzip": gzip, "zstd": zstd} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, partitions)
			huge := record{key: []byte("k"), value: bytes.Repeat([]byte(" "), 100<<20)}.appendTo(nil)
			packed := compressed(t, codec, huge)
			for p := range int32(partitions) {
				if err := r.produce(p, recordBatch(codec, 1, packed)); err != nil {
					t.Fatal(err)
				}
				r.mustProduce(p, plain, measurement("after", 1))
			}
			t.Logf("%d bytes unfold to %d MiB", len(packed), len(huge)>>20)
			r.moves(r.startWithin(limit), limit, 90*time.Second)
		})
	}
}

// TestMemoryOfHostileTopicsTogether produces at the same time, in the partitions of one process, all records that need a thousand
// times their size. The database is slow.
func TestMemoryOfHostileTopicsTogether(t *testing.T) {
	const most = 128 << 20
	r := newTrial(t, 6)
	array := append(append([]byte("[1"), bytes.Repeat([]byte(",1"), 299_999)...), ']')
	r.mustProduce(0, zstd, record{key: bytes.Repeat([]byte("k"), 400<<10), value: array})
	bad := fromEnv(t, "E2E_MEMORY_BAD_RECORDS", 100_000)
	var flood []byte
	for i := range bad {
		flood = record{offset: int64(i), value: []byte("{")}.appendTo(flood)
	}
	if err := r.produce(1, recordBatch(zstd, bad, compressed(t, zstd, flood))); err != nil {
		t.Fatal(err)
	}
	huge := record{key: bytes.Repeat([]byte("k"), 20<<20), value: bytes.Repeat([]byte(" "), 80<<20)}.appendTo(nil)
	for p := range int32(3) {
		if err := r.produce(2+p, recordBatch(zstd, 1, compressed(t, zstd, huge))); err != nil {
			t.Fatal(err)
		}
	}
	r.mustProduce(5, plain, record{value: good(0), headers: []byte{2, 2, 'k', 3}}) // a value of -2 bytes
	for p := range int32(6) {
		r.mustProduce(p, plain, record{value: good(int(p))})
	}
	r.behindLink().DelayAnswers(100 * time.Millisecond)
	r.moves(r.startWithin(most, patient...), most, 3*time.Minute)
	if n := len(r.deadLetters()); n < bad+4 {
		t.Errorf("%d letters, want at least %d", n, bad+4)
	}
}

// TestMemoryOfManySeriesAndASlowDatabase uses far more series than fit into memory, in many partitions, and a slow database.
func TestMemoryOfManySeriesAndASlowDatabase(t *testing.T) {
	series, partitions := 24_000, fromEnv(t, "E2E_MEMORY_PARTITIONS", 12)
	if world.servers.Slow() {
		series = 3_000
	}
	series = fromEnv(t, "E2E_MEMORY_SERIES", series)
	limit := int64(fromEnv(t, "E2E_MEMORY_LIMIT_MIB", 64)) << 20
	r := newTrial(t, partitions)
	r.produceSeries(partitions, series/partitions, fromEnv(t, "E2E_MEMORY_ROUNDS", 1))
	slow := r.behindLink()
	slow.DelayAnswers(time.Duration(fromEnv(t, "E2E_MEMORY_DELAY_MS", 200)) * time.Millisecond)
	// Lookups, and reads after a timeout, scan the whole collection on the servers of the tests.
	c := r.startWithin(limit, append(patient, "BUCKET_REOPEN", "false")...)
	r.moves(c, limit, time.Duration(fromEnv(t, "E2E_MEMORY_MINUTES", 3))*time.Minute)
}

// measurement returns a record of one series.
func measurement(sensor string, n int) record {
	return record{key: []byte(sensor), value: fmt.Appendf(nil,
		`{"time":%q,"meta":{"sensor":%q},"celsius":%d.5,"humidity":%d,"pressure":%d,"rssi":-%d,"count":%d}`,
		time.Now().UTC().Format(time.RFC3339Nano), sensor, n%50, n%100, n%1100, n%90, n)}
}

// produceSeries writes measurements of n series to each partition. The parameter each is the number per series.
func (r *trial) produceSeries(partitions, n, each int) {
	r.t.Helper()
	var g errgroup.Group
	g.SetLimit(2)
	for p := range partitions {
		g.Go(func() error {
			const most = 4000
			for from := 0; from < each*n; from += most {
				var encoded []byte
				count := min(most, each*n-from)
				for i := range count {
					one := measurement(fmt.Sprintf("p%d-%07d", p, (from+i)%n), from+i)
					one.offset = int64(i)
					encoded = one.appendTo(encoded)
				}
				if err := r.produce(int32(p), recordBatch(zstd, count, compressed(r.t, zstd, encoded))); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		r.t.Fatal(err)
	}
}

// behindLink puts the database of the trial behind a link.
func (r *trial) behindLink() *proxy.Link {
	r.t.Helper()
	address, err := url.Parse(r.settings["MONGODB_URI"])
	if err != nil {
		r.t.Fatal(err)
	}
	free, err := harness.NewLinkAddress()
	if err != nil {
		r.t.Fatal(err)
	}
	l, err := proxy.NewLink(free, address.Host)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(l.Close)
	r.settings["MONGODB_URI"] = strings.Replace(r.settings["MONGODB_URI"], address.Host, l.Address(), 1)
	return l
}
