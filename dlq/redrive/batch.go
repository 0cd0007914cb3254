package redrive

import (
	"waterwheel/dlq"
	"waterwheel/internal/kafka"
	"waterwheel/internal/record"
)

// batchLetters and batchBytes bound the letters that go back under one commit.
const (
	batchLetters = 500
	batchBytes   = 1 << 20
)

// batch is a list of letters that go back under one commit.
type batch struct {
	from    record.Partition // a partition of a dead-letter topic
	start   int64            // everything before it is done
	next    int64            // everything before it is done or in letters
	letters []item
	checked int // this many of the letters, from the first on, were checked against their records
	bytes   int
	marker  *marker // a marker committed by an earlier run that began with these letters
	targets map[record.Partition]bool
	noted   int // bytes of the marker
}

// item is a letter on its way back.
type item struct {
	dlq.Found
	again   string        // the reason for which it would become a letter again. Empty means that none is known.
	message kafka.Message // the record that it goes back as
	wrong   string        // why the letter does not belong to the record that it names. Empty means that it does.
	gone    bool          // its topic no longer has the record, so nothing could be compared
	done    bool          // it has gone back
	refused bool          // its topic rejects it, so it stays
}

func (b *batch) add(f *dlq.Found, again string) {
	one := item{Found: f.Clone(), again: again}
	one.message = returned(&one.Found)
	b.letters = append(b.letters, one)
	b.bytes += one.message.Size()
	if to := f.Letter.Partition; !b.targets[to] {
		b.targets[to] = true
		b.noted += markerBytes(len(to.Topic))
	}
}

// isFull reports whether the batch is complete. A batch that an earlier run began keeps its original end.
func (b *batch) isFull(rate int) bool {
	if b.marker != nil {
		return false
	}
	most := batchLetters
	if rate > 0 {
		most = min(most, rate)
	}
	return len(b.letters) >= most || b.bytes >= batchBytes || b.noted+markerBytes(longestTopic) > maxMarker
}

// waiting returns the letters that still have to go back, in order.
func (b *batch) waiting() []*item {
	var waiting []*item
	for i := range b.letters {
		if one := &b.letters[i]; !one.done && !one.refused {
			waiting = append(waiting, one)
		}
	}
	return waiting
}
