package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"waterwheel/bucketer"
	"waterwheel/cmd/consumer/internal/text"
	"waterwheel/config"
	"waterwheel/dlq"
	"waterwheel/measurement"
	"waterwheel/record"
	"waterwheel/sink"
	"waterwheel/timeseries"
)

// samples decodes the newest records of topics.
func (p *program) samples(ctx context.Context, c config.Config, log *topicLog, topics []string, n int, found *findings) []SampleView {
	var views []SampleView
	for _, topic := range topics {
		s, err := newSampler(c, topic)
		if err == nil {
			err = s.read(ctx, log, n, p.progress("records of "+topic))
		}
		if err != nil {
			found.failed("sample of "+topic, err)
			continue
		}
		views = append(views, s.finish())
		s.judge(found)
	}
	return views
}

// sampler makes measurements and buckets of records, as the partitions' workers would with nothing stored yet.
type sampler struct {
	view       SampleView
	collection timeseries.Options
	bucketing  bucketer.Options
	decoder    *measurement.Decoder
	catalogs   map[int32]*bucketer.Catalog
	bad        map[string]*BadView
	hinted     int // bad times that look like another unit
	variety    *variety
	offsets    []int64 // of measurements' times from their records' timestamps, in milliseconds
}

func newSampler(c config.Config, topic string) (*sampler, error) {
	definition, err := collection(c).Normalize()
	if err != nil {
		return nil, fmt.Errorf("defining the time series: %w", err)
	}
	decoder, err := measurement.New(decoding(c, definition))
	if err != nil {
		return nil, err
	}
	o := bucketing(c, sink.NewStore(sink.Ports{}, sink.StoreOptions{Collection: definition})) // it is not asked anything
	o.Reopen = false
	return &sampler{
		view: SampleView{Topic: topic, Examples: []Document{}, Largest: []BucketView{}}, collection: definition, bucketing: o, decoder: decoder,
		catalogs: map[int32]*bucketer.Catalog{}, bad: map[string]*BadView{}, variety: newVariety(),
	}, nil
}

// read takes the newest records of each partition, n together.
func (s *sampler) read(ctx context.Context, log *topicLog, n int, line *text.Progress) error {
	defer line.End()
	spans, err := dlq.Spans(ctx, log, []string{s.view.Topic})
	if err != nil {
		return err
	}
	for i, share := range shares(spans, int64(n)) {
		span := spans[i]
		if share == 0 {
			continue
		}
		err := log.Read(ctx, span.Topic, span.Partition, span.End-share, span.End, func(r *dlq.Record) error {
			s.take(span.Partition, r)
			line.At(int64(s.view.Records), int64(n))
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// shares parts n among partitions: as evenly as they are filled.
func shares(spans []dlq.Span, n int64) []int64 {
	list := make([]int64, len(spans))
	order := make([]int, len(spans))
	for i := range order {
		order[i] = i
	}
	size := func(i int) int64 { return max(0, spans[i].End-spans[i].First) }
	slices.SortFunc(order, func(a, b int) int { return int(min(1, max(-1, size(a)-size(b)))) })
	for done, i := range order {
		list[i] = min(size(i), n/int64(len(order)-done))
		n -= list[i]
	}
	return list
}

func (s *sampler) take(partition int32, r *dlq.Record) {
	s.view.Records++
	if r.Value == nil {
		s.view.Tombstones++
		return
	}
	at := fmt.Sprintf("%s/%d/%d", s.view.Topic, partition, r.Offset)
	results, err := decode(s.decoder, record.Record{Offset: r.Offset, Timestamp: r.Timestamp, Key: r.Key, Value: r.Value})
	if err != nil {
		s.refuse(at, err)
		return
	}
	for i := range results {
		if err := results[i].Err; err != nil {
			s.refuse(at, err)
			continue
		}
		s.measure(partition, at, r.Timestamp, &results[i].Measurement)
	}
}

// refuse counts what would become a letter.
func (s *sampler) refuse(at string, err error) {
	reason, text := string(measurement.InternalError), err.Error()
	var wrong *measurement.DecodeError
	if errors.As(err, &wrong) {
		reason = string(wrong.Reason)
		if wrong.Reason == measurement.TimeOutOfRange && strings.Contains(wrong.Detail, " looks like ") {
			s.hinted++
		}
	}
	if s.bad[reason] == nil {
		s.bad[reason] = &BadView{Reason: reason, Example: text, From: at}
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
	sound, err := insert(catalog, m)
	if !sound {
		delete(s.catalogs, partition) // what it held is left out of the buckets
	}
	if err != nil {
		s.refuse(at, err)
		return
	}
	s.view.Measurements++
	s.offsets = append(s.offsets, m.Time-timestamp)
	s.variety.add(m.Meta)
	if len(s.view.Examples) < shownMeasurements {
		s.view.Examples = append(s.view.Examples, s.document(m))
	}
}

// document is a measurement as readers of the time series see it.
func (s *sampler) document(m *measurement.Measurement) Document {
	start, raw := bsoncore.AppendDocumentStart(nil)
	raw = bsoncore.AppendDateTimeElement(raw, s.collection.TimeField, m.Time)
	if m.Meta.Type != 0 {
		raw = append(bsoncore.AppendHeader(raw, bsoncore.Type(m.Meta.Type), s.collection.MetaField), m.Meta.Value...)
	}
	raw, err := bsoncore.AppendDocumentEnd(append(raw, m.Elements...), start)
	if err != nil {
		return documentOf(err.Error())
	}
	return documentOf(bson.Raw(raw))
}

// documentOf writes a value as Extended JSON.
func documentOf(value any) Document {
	const shell = `{"v":` // only documents can be written
	text, err := bson.MarshalExtJSON(bson.D{{Key: "v", Value: value}}, false, false)
	if err != nil {
		return Document(`null`)
	}
	return Document(text[len(shell) : len(text)-1])
}

// finish cuts the buckets.
func (s *sampler) finish() SampleView {
	for partition, catalog := range s.catalogs {
		flush := catalog.Prepare(0)
		if flush == nil {
			continue
		}
		for _, w := range flush.Writes {
			s.view.Buckets++
			s.view.Largest = append(s.view.Largest, s.bucket(partition, w))
		}
	}
	s.view.Series = s.variety.series()
	slices.SortFunc(s.view.Largest, func(a, b BucketView) int {
		if a.Measurements != b.Measurements {
			return int(b.Measurements - a.Measurements)
		}
		return strings.Compare(a.From+string(a.Meta), b.From+string(b.Meta))
	})
	s.view.Largest = s.view.Largest[:min(len(s.view.Largest), shownBuckets)]
	for _, bad := range s.bad {
		s.view.Bad = append(s.view.Bad, *bad)
	}
	slices.SortFunc(s.view.Bad, func(a, b BadView) int { return b.Count - a.Count })
	s.view.Fields = s.variety.fields(shownFields)
	return s.view
}

func (s *sampler) bucket(partition int32, w *bucketer.Write) BucketView {
	view := BucketView{
		From: fmt.Sprintf("%s/%d", s.view.Topic, partition), Meta: Document("null"), Measurements: w.Count, Bytes: len(w.Document),
	}
	if w.Meta.Type != 0 {
		view.Meta = documentOf(w.Meta)
	}
	control := w.Document.Lookup(timeseries.FieldControl)
	if document, ok := control.DocumentOK(); ok {
		first, _ := document.Lookup("min", s.collection.TimeField).TimeOK()
		last, _ := document.Lookup("max", s.collection.TimeField).TimeOK()
		view.First, view.Last = first.UTC(), last.UTC()
	}
	return view
}
