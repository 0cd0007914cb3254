package check

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"waterwheel/bucketer"
	"waterwheel/dlq"
	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

// These bound what is shown of a sample.
const (
	shownMeasurements = 3
	shownBuckets      = 10
	shownFields       = 5
)

// seriesCounted is the number of series up to which the count is exact.
const seriesCounted = 1 << 17

const (
	// heaviest is the maximum size in bytes of the measurements that wait to be written.
	heaviest = 64 << 20
	// weighedEvery is the number of measurements between two checks of that size.
	weighedEvery = 1000
)

// Sample is what the newest records of a topic would become.
type Sample struct {
	Topic string `json:"topic"`
	// Records is the number of records read. Tombstones have a null value and are skipped.
	Records    int `json:"records"`
	Tombstones int `json:"tombstones"`
	// Skipped are events that EVENT_SKIP leaves out.
	Skipped      int `json:"skipped,omitempty"`
	Measurements int `json:"measurements"`
	Series       int `json:"series"`
	Buckets      int `json:"buckets"`
	// Stops are records that would stop their partition. Nil means that there are none.
	Stops *Bad `json:"stops,omitempty"`
	// Bad would become dead letters, by reason.
	Bad []Bad `json:"bad,omitempty"`
	// Examples are measurements as they would be stored. Largest are the buckets with the most measurements.
	Examples []Document      `json:"examples"`
	Largest  []PreviewBucket `json:"largest"`
	// Fields are the fields of meta, the most varied first.
	Fields []Field `json:"fields,omitempty"`
	// Tried is how many records the advised settings were tried with. It is an even part of the sample if the sample is large.
	Tried int `json:"tried,omitempty"`
	Advice
}

// Bad counts the records or elements that would become dead letters for one reason.
type Bad struct {
	Reason string `json:"reason"`
	Count  int    `json:"count"`
	// Example says what is wrong with one of them. From is its place.
	Example string `json:"example"`
	From    string `json:"from"`
}

// PreviewBucket is a bucket that would be written.
type PreviewBucket struct {
	id           bson.ObjectID
	From         string    `json:"from"` // topic/partition
	Meta         Document  `json:"meta"`
	First        time.Time `json:"first"` // rounded, as in the bucket
	Last         time.Time `json:"last"`
	Measurements int32     `json:"measurements"`
	Bytes        int       `json:"bytes"`
}

// Document is relaxed Extended JSON.
type Document = json.RawMessage

// samples decodes the newest records of the topics that can be read.
func (l *look) samples(ctx context.Context) (samples []Sample) {
	for _, topic := range l.Topics {
		if l.Sample == 0 || l.spans[topic.Name] == nil {
			continue
		}
		s, err := newSampler(topic.Name, topic.Decoding, topic.Bucketing)
		if err == nil {
			err = l.read(ctx, s)
		}
		if err != nil {
			l.Failed("sample of "+topic.Name, err)
			continue
		}
		samples = append(samples, s.finish())
		s.judge(l.Findings)
	}
	return samples
}

// read reads the newest records of each partition of a topic.
func (l *look) read(ctx context.Context, s *sampler) error {
	at, end := l.Progress(s.view.Topic)
	defer end()
	spans, err := dlq.Spans(ctx, l.Kafka, []string{s.view.Topic})
	if err != nil {
		return err
	}
	for i, share := range shares(spans, int64(l.Sample)) {
		span := spans[i]
		if share == 0 {
			continue
		}
		_, err := l.Kafka.Scan(ctx, span.Partition, span.End-share, span.End, func(r *record.Record) error {
			s.take(span.Number, r)
			at(s.view.Records)
			return s.unknown
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// sampler makes measurements and buckets of records, as the partitions' workers would if nothing were stored yet.
type sampler struct {
	view      Sample
	bucketing bucketer.Options
	decoding  measurement.Options
	decoder   *measurement.Decoder
	evidence  *evidence
	kept      *kept
	catalogs  map[int32]*bucketer.Catalog
	heaviest  int64
	bad       map[string]*Bad
	notes     []note // about the values that are stored
	hinted    int    // number of bad times that look like another unit
	variety   *variety
	offsets   []int64 // distances of measurements' times from their records' timestamps, in milliseconds
	asked     *asked  // what the schema registry said
	unknown   error   // why a record could not be judged. Nil means that all were judged.
}

func newSampler(topic string, decoding measurement.Options, bucketing bucketer.Options) (*sampler, error) {
	registry := &asked{}
	registry.watch(&decoding)
	decoder, err := measurement.New(decoding)
	bucketing.Reopen, bucketing.DeltaMax = false, 0
	found := newEvidence(topic, topic != FeedName)
	found.encodings.readBy(decoding)
	return &sampler{
		view: Sample{Topic: topic, Examples: []Document{}, Largest: []PreviewBucket{}}, bucketing: bucketing, decoding: decoding, decoder: decoder,
		catalogs: map[int32]*bucketer.Catalog{}, bad: map[string]*Bad{}, variety: newVariety(),
		evidence: found, kept: &kept{}, heaviest: heaviest, asked: registry,
	}, err
}

// shares divides n among partitions, as evenly as their sizes allow.
func shares(spans []dlq.Span, n int64) []int64 {
	list := make([]int64, len(spans))
	size := func(i int) int64 { return max(0, spans[i].End-spans[i].First) }
	bySize := make([]int, len(spans))
	for i := range bySize {
		bySize[i] = i
	}
	slices.SortFunc(bySize, func(i, j int) int { return cmp.Compare(size(i), size(j)) })
	for done, i := range bySize {
		list[i] = min(size(i), n/int64(len(list)-done))
		n -= list[i]
	}
	return list
}

func (s *sampler) take(partition int32, r *record.Record) {
	s.view.Records++
	before := s.evidence.objects
	s.evidence.add(partition, r)
	s.kept.keep(partition, r, s.evidence.objects > before)
	if r.Value == nil {
		s.view.Tombstones++
		return
	}
	at := s.evidence.where(place{partition, r.Offset})
	results, err := s.decoder.TryDecode(*r)
	if _, unknown := errors.AsType[*measurement.NeedSchemaError](err); unknown {
		s.unknown = err
		return
	}
	if err != nil {
		s.refuse(at, err)
		return
	}
	s.view.Skipped += s.decoder.Skipped()
	s.view.Tombstones += s.decoder.Tombstones()
	for i := range results {
		if err := results[i].Err; err != nil {
			s.refuse(at, err)
			continue
		}
		s.measure(partition, at, r.Timestamp, &results[i].Measurement)
	}
}

// refuse counts a record or element that would become a dead letter.
func (s *sampler) refuse(at string, err error) {
	reason, text := string(measurement.InternalError), err.Error()
	if wrong, ok := errors.AsType[*measurement.DecodeError](err); ok {
		reason = string(wrong.Reason)
		if wrong.Reason == measurement.TimeOutOfRange && strings.Contains(wrong.Detail, " looks like ") {
			s.hinted++
		}
	}
	if s.bad[reason] == nil {
		s.bad[reason] = &Bad{Reason: reason, Example: text, From: at}
	}
	s.bad[reason].Count++
}

func (s *sampler) measure(partition int32, at string, timestamp int64, m *measurement.Measurement) {
	catalog := s.catalogs[partition]
	if catalog == nil {
		o := s.bucketing
		o.Source = timeseries.Source{Topic: s.view.Topic, Partition: partition}
		catalog = bucketer.New(o)
		s.catalogs[partition] = catalog
	}
	if err := s.insert(catalog, partition, m); err != nil {
		s.refuse(at, err)
		return
	}
	s.view.Measurements++
	if s.view.Measurements%weighedEvery == 0 {
		s.lighten()
	}
	s.offsets = append(s.offsets, m.Time-timestamp)
	s.variety.add(m.Meta, partition)
	if len(s.view.Examples) < shownMeasurements {
		s.view.Examples = append(s.view.Examples, documentIn(s.bucketing, m))
	}
}

// insert inserts a measurement. After a panic the state of the catalog is unknown, so the catalog is dropped, and its buckets do
// not count.
func (s *sampler) insert(catalog *bucketer.Catalog, partition int32, m *measurement.Measurement) (err error) {
	defer measurement.Guard(&err, func(any) { delete(s.catalogs, partition) })
	return catalog.Insert(m)
}

// documentIn returns a measurement as readers of the time series see it.
func documentIn(o bucketer.Options, m *measurement.Measurement) Document {
	start, raw := bsoncore.AppendDocumentStart(nil)
	raw = bsoncore.AppendDateTimeElement(raw, o.Collection.TimeField, m.Time)
	if m.Meta.Type != 0 {
		raw = append(bsoncore.AppendHeader(raw, bsoncore.Type(m.Meta.Type), o.Collection.MetaField), m.Meta.Value...)
	}
	raw, err := bsoncore.AppendDocumentEnd(append(raw, m.Elements...), start)
	if err != nil {
		return documentOf(err.Error())
	}
	return documentOf(bson.Raw(raw))
}

// documentOf formats a value as Extended JSON.
func documentOf(value any) Document {
	const shell = `{"v":` // only documents can be marshalled
	text, err := bson.MarshalExtJSON(bson.D{{Key: "v", Value: value}}, false, false)
	if err != nil {
		return Document(`null`)
	}
	return Document(text[len(shell) : len(text)-1])
}

// finish cuts the buckets and completes the sample.
func (s *sampler) finish() Sample {
	for partition := range s.catalogs {
		s.write(partition)
	}
	s.view.Series = s.variety.series()
	s.stop()
	for _, bad := range s.bad {
		s.view.Bad = append(s.view.Bad, *bad)
	}
	slices.SortFunc(s.view.Bad, func(a, b Bad) int { return b.Count - a.Count })
	s.view.Fields = s.variety.fields(shownFields)
	s.advise()
	return s.view
}

// lighten writes the waiting measurements when they take much memory, and frees them.
func (s *sampler) lighten() {
	var bytes int64
	for _, catalog := range s.catalogs {
		bytes += catalog.Bytes()
	}
	if bytes < s.heaviest {
		return
	}
	for partition, catalog := range s.catalogs {
		if flush := s.write(partition); flush != nil {
			catalog.Finish(flush, make([]bucketer.Outcome, len(flush.Writes)), 0) // all writes are applied
		}
		catalog.Expire(s.heaviest / int64(len(s.catalogs)))
	}
}

// write counts the buckets that wait to be written, and keeps those with the most measurements.
func (s *sampler) write(partition int32) *bucketer.Flush {
	flush := s.catalogs[partition].Prepare(0)
	if flush == nil {
		return nil
	}
	for _, w := range flush.Writes {
		if w.Kind == bucketer.Insert {
			s.view.Buckets++
			s.view.Largest = append(s.view.Largest, s.bucket(partition, w))
			continue
		}
		for i := range s.view.Largest {
			if one := &s.view.Largest[i]; one.id == w.ID {
				one.Measurements, one.Bytes = w.Count, one.Bytes+len(w.Document)
			}
		}
	}
	slices.SortFunc(s.view.Largest, func(a, b PreviewBucket) int {
		return cmp.Or(cmp.Compare(b.Measurements, a.Measurements), strings.Compare(a.From+string(a.Meta), b.From+string(b.Meta)))
	})
	s.view.Largest = s.view.Largest[:min(len(s.view.Largest), shownBuckets)]
	return flush
}

func (s *sampler) bucket(partition int32, w *bucketer.Write) PreviewBucket {
	view := PreviewBucket{
		id:   w.ID,
		From: fmt.Sprintf("%s/%d", s.view.Topic, partition), Meta: Document("null"), Measurements: w.Count, Bytes: len(w.Document),
	}
	if w.Meta.Type != 0 {
		view.Meta = documentOf(w.Meta)
	}
	first, _ := w.Document.Lookup(timeseries.FieldControl, "min", s.bucketing.Collection.TimeField).TimeOK()
	last, _ := w.Document.Lookup(timeseries.FieldControl, "max", s.bucketing.Collection.TimeField).TimeOK()
	view.First, view.Last = first.UTC(), last.UTC()
	return view
}
