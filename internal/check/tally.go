package check

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
)

const (
	// keptBytes bounds the size of the records of a sample that are kept to try settings with.
	keptBytes = 16 << 20
	// probedRecords bounds how many records each time format is tried with.
	probedRecords = 1000
)

// kept is a set of records of a sample, all or an evenly spread part, to try settings with.
type kept struct {
	list  []keptRecord
	bytes int
	zeros int    // the least keptRecord.zeros
	seen  uint64 // number of records that were offered
}

type keptRecord struct {
	record.Record
	partition int32
	zeros     int  // trailing zero bits of a hash; the records with at least some number of them are a fair part of all
	events    bool // it contains objects
}

func (r *keptRecord) size() int { return len(r.Key) + len(r.Value) + len(r.Headers) }

// keep copies a record.
func (k *kept) keep(partition int32, r *record.Record, events bool) {
	k.seen++
	one := keptRecord{Record: *r, partition: partition, events: events, zeros: bits.TrailingZeros64(hashOf(binary.LittleEndian.AppendUint64(nil, k.seen)))}
	if one.zeros < k.zeros || r.Value == nil {
		return
	}
	one.Key, one.Value, one.Headers = bytes.Clone(r.Key), bytes.Clone(r.Value), bytes.Clone(r.Headers)
	k.list = append(k.list, one)
	k.bytes += one.size()
	for k.bytes > keptBytes && len(k.list) > 1 {
		k.zeros++
		k.list = slices.DeleteFunc(k.list, func(r keptRecord) bool {
			if r.zeros >= k.zeros {
				return false
			}
			k.bytes -= r.size()
			return true
		})
	}
}

// probe returns some of the records with events, spread evenly.
func (k *kept) probe() (list []keptRecord) {
	for zeros := k.zeros; ; zeros++ {
		list = list[:0]
		for _, r := range k.list {
			if r.events && r.zeros >= zeros {
				list = append(list, r)
			}
		}
		if len(list) <= probedRecords {
			return list
		}
	}
}

// tally is the outcome of some records with some settings.
type tally struct {
	good, bad int
	metas     *distinct // the series, with their keys
	keys      *distinct // the records' keys, with their series
	examples  []Document
	reason    string // why the first bad one is bad
	offsets   []int64
}

// triedValues bounds how many distinct series and keys of a tally are kept.
const triedValues = 1 << 16

// try decodes records with other options. False means that the options are invalid.
func (p *proposer) try(o measurement.Options, list []keptRecord) (tally, bool) {
	t := tally{metas: newDistinct(triedValues), keys: newDistinct(triedValues)}
	o, collection := p.stored(o)
	decoder, err := measurement.New(o)
	if err != nil {
		return t, false
	}
	refuse := func(err error) {
		if t.bad++; t.reason == "" {
			t.reason = err.Error()
		}
	}
	for i := range list {
		r := &list[i]
		results, err := decoder.TryDecode(r.Record)
		if err != nil {
			refuse(err)
		}
		for j := range results {
			if results[j].Err != nil {
				refuse(results[j].Err)
				continue
			}
			t.add(r, &results[j].Measurement)
			if len(t.examples) < shownMeasurements {
				t.examples = append(t.examples, documentIn(collection, &results[j].Measurement))
			}
		}
	}
	return t, true
}

// stored returns options with the names of time and meta in a collection for them.
func (p *proposer) stored(o measurement.Options) (measurement.Options, bucketer.Options) {
	bucketing := p.bucketing
	if o.MetaFrom == measurement.MetaFromNone {
		bucketing.Collection.MetaField = ""
	} else if bucketing.Collection.MetaField == "" {
		bucketing.Collection.MetaField = "meta"
	}
	o.StoredMeta = bucketing.Collection.MetaField
	return o, bucketing
}

func (t *tally) add(r *keptRecord, m *measurement.Measurement) {
	t.good++
	meta, key := hashMeta(m.Meta), hashOf(r.Key)
	t.metas.add(meta, key)
	if len(r.Key) > 0 {
		t.keys.add(key, meta)
	}
	t.offsets = append(t.offsets, m.Time-r.Timestamp)
}

// asKeys reports whether series and keys divide the events in the same way.
func (t *tally) asKeys() bool {
	byMeta, _ := t.metas.mixing()
	byKey, tested := t.keys.mixing()
	return tested && byMeta < disagree && byKey < disagree
}

// hashMeta returns the hash of a meta, which may be absent.
func hashMeta(meta bson.RawValue) uint64 {
	return hashOf(binary.LittleEndian.AppendUint16(nil, uint16(meta.Type)), meta.Value)
}
