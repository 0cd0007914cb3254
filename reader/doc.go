// Package reader reads the measurements of a time series that this module's consumer has stored in MongoDB. It fetches the
// buckets, and the segments that are not compacted yet, and unpacks them on the client: it needs neither the view nor any server-side
// feature beyond find and aggregate.
//
//	series, err := reader.Open(ctx, client.Database("telemetry"), "measurements")
//	if err != nil { … }
//	query := reader.Query{Meta: bson.D{{Key: "meta.sensor", Value: "s-17"}}, From: time.Now().Add(-time.Hour)}
//	for m, err := range series.Find(ctx, query) {
//		if err != nil { … }
//		fmt.Println(m.Time, m.Meta, m.Fields)
//	}
//
// # What is held in memory
//
// Of the buckets only those are held whose times overlap where the reading is, so that a month of one series streams in the
// memory of a few buckets. Where a query selects series by anything but one whole meta, the metas it selects are held as well.
// Many series are asked for by one request, in their order, and read one after the other. Latest holds one measurement of each of
// up to a thousand series.
//
// What segments have of the selected series and times is read at the beginning, and held until it is yielded: what the consumer
// has not compacted yet, which is up to one COMPACT_INTERVAL of slow series, and each measurement with its fields that are asked for
// and about 50 bytes. Of that Latest and Series hold one measurement a series and partition, Follow nothing.
//
// # What is shown
//
// A measurement that is compacted is in a segment and in a bucket for some time. A reading asks the server for its time once, and
// shows what was shown at that moment, by the rule of docs/segments.md: each measurement once. So the servers that it reads from
// must not lag behind by more than half a minute or so.
//
// # Bytes
//
// The Meta and the Fields of a Measurement are valid until the next step of the iterator, which makes them anew in the same
// memory: Clone what has to last.
//
// # Errors
//
// A failure that may pass by itself (no primary, a lost connection, a lost cursor) is waited for up to a minute without
// progress, and the reading goes on where it was. Any other error ends the iterator, but for *BucketError: it tells of one
// bucket that cannot be read, and a caller that goes on gets the measurements of the others. *QueryError: the query is wrong,
// and nothing was read.
//
// # The files
//
//	series.go       opening a time series; query.go: what is asked of it; measurement.go: what comes back
//	fields.go       the fields that are asked for
//	meta.go         a filter on the meta: its normal form, and whether it is one whole meta
//	list.go         which series a filter selects; choose.go: the same of those in segments; bounds.go: in which segments they are
//	staged.go       what segments have of them
//	find.go         measurements of series after series; latest.go: the newest of each; follow.go: what is being stored;
//	                passed.go: what of that was shown
//	totals.go       totals by windows of time; windows.go: how long these are; levels.go: which rollups have them
//	merge.go        buckets that overlap, in the order of their measurements; held.go: one bucket of them
//	scan.go         buckets one after the other, through failures; retry.go: which failures pass
//	sweep.go        the buckets of many series by one request; latestmany.go: the newest measurement of each of many
//	port.go         what is asked of a server; driver.go: the same of a real one
//	explain.go      what a query costs the server
//	errors.go       errors that callers tell apart
package reader
