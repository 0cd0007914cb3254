package check

import (
	"encoding/binary"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/measurement"
)

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
	o, collection := p.stored(o)
	decoder, err := measurement.New(o)
	if err != nil {
		return tally{}, false
	}
	t := tally{metas: newDistinct(triedValues), keys: newDistinct(triedValues)}
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
