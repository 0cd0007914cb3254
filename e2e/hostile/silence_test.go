package hostile

import (
	"fmt"
	"testing"
	"time"
)

// TestAnswersOfTheDatabaseAreLost loses answers for a moment between two checks of the driver, which then notices nothing. Reads
// must time out and be sent again.
func TestAnswersOfTheDatabaseAreLost(t *testing.T) {
	const partitions = 4
	r := newTrial(t, partitions)
	between := r.behindLink()
	series := 0
	produce := func(d time.Duration) { // each new series is older than the last, so its bucket must be looked up
		for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			for p := range int32(partitions) {
				at := time.Now().Add(time.Duration(-series) * time.Hour).UTC().Format(time.RFC3339Nano)
				r.mustProduce(p, plain, record{
					key: fmt.Appendf(nil, "s%d-%d", p, series), value: fmt.Appendf(nil, `{"time":%q,"meta":"s%d-%d","celsius":%d}`, at, p, series, series),
				})
			}
			series++
		}
	}
	produce(time.Second)
	first := r.start()
	r.awaitCommitted(first, time.Minute)
	r.terminate(first)
	c := r.start("FLUSH_INTERVAL", "100ms") // it does not know all that is stored
	produce(2 * time.Second)
	between.LoseAnswers()
	produce(400 * time.Millisecond)
	if err := between.Restore(); err != nil {
		t.Fatal(err)
	}
	produce(time.Second)
	began := time.Now()
	r.awaitCommitted(c, 3*time.Minute)
	t.Logf("all was committed after %v", time.Since(began).Round(time.Millisecond))
	r.terminate(c)
}
