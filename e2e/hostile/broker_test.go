package hostile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"waterwheel/e2e/harness"
)

// TestNonsenseFromBrokersIsSurvived answers each kind of request with lengths that exceed the data. The consumer must stay within
// its memory, retry, and continue when the answers are valid again. Every record is stored once.
func TestNonsenseFromBrokersIsSurvived(t *testing.T) {
	t.Parallel()
	const limit = 128 << 20
	r := newTrial(t, 2)
	m := newMeddler(t, r.settings["KAFKA_BROKERS"])
	r.settings = r.settings.With("KAFKA_BROKERS", m.address(), "MEMORY_LIMIT", "128MiB")
	direct := *r
	direct.settings = r.settings.With("KAFKA_BROKERS", m.target)
	made := 0
	produce := func() {
		made++
		event := fmt.Sprintf(`{"time":%d,"meta":"m","v":%d}`, time.Now().UnixMilli(), made)
		for partition := range int32(2) {
			direct.mustProduce(partition, plain, record{value: []byte(event)}, record{value: []byte("{")})
		}
	}
	survives := func(c *harness.Consumer, api kmsg.Key) {
		produce()
		await(t, fmt.Sprintf("nobody asks %s", api.Name()), func() bool { return m.disturbed() >= 3 || !c.Running() })
		m.disturb(nothing)
		r.awaitCommitted(c, 40*time.Second)
	}
	c := r.start()
	produce()
	r.awaitCommitted(c, 40*time.Second)
	for _, api := range []kmsg.Key{kmsg.Fetch, kmsg.Produce, kmsg.Metadata, kmsg.FindCoordinator, kmsg.OffsetCommit, kmsg.Heartbeat} {
		m.disturb(api)
		survives(c, api)
	}
	for _, api := range []kmsg.Key{kmsg.JoinGroup, kmsg.SyncGroup, kmsg.OffsetFetch, kmsg.ListOffsets} { // sent at the start
		r.staysWithin(c, limit)
		r.terminate(c)
		m.disturb(api)
		c = r.start()
		survives(c, api)
	}
	r.staysWithin(c, limit)
	r.terminate(c)
	if code, printed := direct.run(nil, "verify", "--topic", r.topic); code != 0 {
		t.Errorf("verify ended with code %d:\n%s", code, printed)
	}
}

// TestNonsenseAtTheStartIsNamed checks that check ends without a stack trace when its first requests get nonsense as answers.
func TestNonsenseAtTheStartIsNamed(t *testing.T) {
	t.Parallel()
	r := newTrial(t, 1)
	m := newMeddler(t, r.settings["KAFKA_BROKERS"])
	for _, api := range []kmsg.Key{kmsg.ApiVersions, kmsg.Metadata, kmsg.CreateTopics, kmsg.DescribeConfigs, kmsg.DescribeGroups, kmsg.ListOffsets, kmsg.OffsetFetch} {
		m.disturb(api)
		c, err := harness.Start(world.binary, r.settings.With("KAFKA_BROKERS", m.address(), "MEMORY_LIMIT", "128MiB"), "check")
		if err != nil {
			t.Fatal(err)
		}
		code, err := c.Wait(within(t, time.Minute))
		if printed := c.Log(); err != nil || code != 3 && code != 0 || strings.Contains(printed, "goroutine ") || m.disturbed() == 0 {
			t.Errorf("%s: exit code %d, %v, %d answers disturbed:\n%s", api.Name(), code, err, m.disturbed(), printed)
		}
	}
}

func await(t *testing.T, failure string, done func() bool) {
	t.Helper()
	for ctx := within(t, 30*time.Second); !done(); time.Sleep(10 * time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatal(failure)
		}
	}
}
