package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/collection"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/words"
	"waterwheel/reader"
)

// indexes reports which indexes META_INDEXES asks for or no longer asks for, and which index serves the filter.
func (l *look) indexes(ctx context.Context, subject string, topic Topic) {
	if len(l.Settings.MetaPaths) == 0 && l.Filter == nil {
		return
	}
	list, err := collection.Of(l.Database, topic.Series).Indexes(ctx)
	if err != nil {
		l.Failed(subject, err)
		return
	}
	l.metaIndexes(subject, list)
	if l.Filter == nil {
		return
	}
	view, err := collection.Of(l.Database, topic.Series).View(ctx, l.Settings.View)
	if err != nil {
		l.Failed(subject, err)
		return
	}
	advice, err := list.Options.Advise(l.Filter, list.Definitions(view.Kind == collection.ViewInternal))
	if err != nil {
		l.Wrong(subject, "correct --filter", "%v", err)
		return
	}
	if !l.mistaken(ctx, subject, topic, list.Options, advice) {
		l.advise(subject, topic, advice, l.cost(ctx, subject, topic.Series, list.Options))
	}
}

// mistaken reports whether the filter is on a part of the meta that no measurement of a sample has. It adds a warning, because an
// index on it would find nothing either.
func (l *look) mistaken(ctx context.Context, subject string, topic Topic, o timeseries.Options, a timeseries.Advice) bool {
	paths := slices.DeleteFunc(slices.Clone(a.Misses), func(path string) bool { return path == o.TimeField })
	if len(paths) == 0 {
		return false
	}
	sample, err := collection.Of(l.Database, topic.Series).SampleFields(ctx, o, paths...)
	if err != nil || sample.Documents == 0 {
		return false // other checks report what is wrong
	}
	paths = slices.DeleteFunc(paths, sample.Has)
	if len(paths) == 0 {
		return false
	}
	l.Warn(subject, "correct --filter", "no measurement in the newest %d buckets and segments has %s: the filter finds nothing there, and no index can help",
		sample.Documents, strings.Join(paths, " or "))
	return true
}

func (l *look) metaIndexes(subject string, list collection.IndexList) {
	missing, unasked := list.CompareMetaIndexes(l.Settings.MetaPaths)
	for _, path := range missing {
		l.Warn(subject, "run `waterwheel init` or `waterwheel run` to create the index", "META_INDEXES asks for %s, but no index supports queries on it", path)
	}
	for _, name := range unasked {
		l.Note(subject, "META_INDEXES no longer asks for the index %s: `waterwheel collection drop-index %[1]s` drops it", name)
	}
	if n := len(l.Settings.MetaPaths) - len(missing); n > 0 {
		l.OK(subject, "%d of %s of META_INDEXES %s", n, words.Count(len(l.Settings.MetaPaths), "index"), words.Form(n, "exists", "exist"))
	}
}

// cost asks MongoDB what the filter costs. Nil means that it is unknown.
func (l *look) cost(ctx context.Context, subject, name string, o timeseries.Options) *reader.Cost {
	filter, err := o.BucketFilter(l.Filter)
	if err != nil { // Advise reports the same error
		return nil
	}
	series, err := reader.Open(ctx, l.Database.Driver(), name)
	var c reader.Cost
	if err == nil {
		c, err = series.ExplainFilter(ctx, filter)
	}
	switch {
	case errors.Is(err, reader.ErrNoExplain):
		return nil
	case err != nil:
		l.Note(subject, "the cost of the filter is not known: %v", l.Database.Explain(err))
		return nil
	}
	return &c
}

// muchMore is how many times more buckets than it finds a filter may examine before an index is worthwhile.
const muchMore = 10

// advise reports which index serves the filter, and which index would serve it better.
func (l *look) advise(subject string, topic Topic, a timeseries.Advice, c *reader.Cost) {
	measured := ""
	if c != nil && a.Index != timeseries.IDIndexName { // The filter that was tried does not bound the _id.
		measured = fmt.Sprintf("; in a test MongoDB examined %s, of which %d can match", words.Count(c.DocumentsExamined, "bucket"), c.Buckets)
	}
	wide := ""
	if len(a.Wide) > 0 {
		wide = fmt.Sprintf("; no index supports %s", strings.Join(a.Wide, ", "))
	}
	if len(a.Fields) > 0 {
		wide += fmt.Sprintf("; %s is checked in each bucket that the rest of the filter finds", strings.Join(a.Fields, ", "))
	}
	cheap := measured != "" && c.DocumentsExamined <= muchMore*max(c.Buckets, 1)
	switch {
	case a.Index == "" && a.Keys == nil:
		l.Warn(subject, "filter by a part of the meta or by a time", "the filter reads every bucket%s%s", wide, measured)
	case a.Keys == nil:
		l.OK(subject, "the index %s supports the filter on %s%s%s", a.Index, strings.Join(a.Narrows, ", "), wide, measured)
	case cheap:
		l.OK(subject, "no index supports the filter on %s, but at present the filter reads few buckets%s%s", strings.Join(a.Misses, ", "), wide, measured)
	case a.Index == "":
		l.Warn(subject, l.wayOut(topic, a), "no index supports the filter: the filter reads every bucket%s%s", wide, measured)
	default:
		l.Warn(subject, l.wayOut(topic, a), "the index %s supports the filter on %s, but not on %s: the filter reads more buckets than it needs%s%s",
			a.Index, strings.Join(a.Narrows, ", "), strings.Join(a.Misses, ", "), wide, measured)
	}
}

func (l *look) wayOut(topic Topic, a timeseries.Advice) string {
	only := ""
	if len(l.Topics) > 1 {
		only = topic.Name
	}
	return "create the index: " + IndexCommand(a.Keys, only)
}

// IndexCommand returns the command that creates an index of these keys, for one topic, or for all if topic is empty. It adds the
// setting that would also do, if there is one.
func IndexCommand(keys bson.Raw, topic string) string {
	written, err := bson.MarshalExtJSON(keys, false, false)
	if err != nil {
		written = []byte(keys.String())
	}
	text := fmt.Sprintf("waterwheel collection create-index '%s'", written)
	if topic != "" {
		text += " --topic " + topic
	}
	if names, err := keys.Elements(); err == nil && len(names) == 2 {
		text += fmt.Sprintf(", or META_INDEXES=%s", names[0].Key())
	}
	return text
}
