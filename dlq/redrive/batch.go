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

// batch is letters that go back under one commit.
type batch struct {
	from    record.Partition // of a dead-letter topic
	start   int64            // everything before it is done
	next    int64            // everything before it is done or in letters
	letters []item
	checked int // so many of letters, from the first on, are of records that are or were there
	bytes   int
	marker  *marker // committed already: a former run has begun with these letters
	targets map[record.Partition]bool
	noted   int // bytes of the marker
}

// item is a letter on its way back.
type item struct {
	dlq.Found
	again   string        // the reason for which it would come back. Empty means that none is known.
	message kafka.Message // the record that it goes back as
	wrong   string        // what speaks against that it is of the record it names. Empty means nothing.
	gone    bool          // its topic has the record no more: nothing could be compared
	done    bool          // it has gone back
	refused bool          // its topic does not take it: it stays
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

// isFull leaves a batch that was begun before as it was cut then.
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

// waiting are the letters that are still to go back, in order.
func (b *batch) waiting() []*item {
	var waiting []*item
	for i := range b.letters {
		if one := &b.letters[i]; !one.done && !one.refused {
			waiting = append(waiting, one)
		}
	}
	return waiting
}
