// Package reader reads the measurements of a time series that this module's consumer has stored in MongoDB. It fetches buckets
// and segments that are not compacted yet, and unpacks them on the client. It needs neither the view nor any server-side feature
// beyond find and aggregate.
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
// Find holds only the buckets whose times overlap at its current position. So a month of one series streams in the memory of a
// few buckets. If a query selects series by anything but one whole meta, the selected metas are held as well. One request asks
// for many series in their order, and Find reads them one after the other. Latest holds one measurement of each of up to a
// thousand series.
//
// Measurements in segments are read at the beginning, and held until they are yielded. They are the ones that the consumer has
// not compacted yet: up to one COMPACT_INTERVAL of slow series. Each takes the size of its requested fields and about 50 bytes.
// Latest and Series hold one such measurement for each series and partition. Follow holds none.
//
// # What is shown
//
// For some time, a compacted measurement is in both a segment and a bucket. A reading asks the server for its time once. It then
// shows what was visible at that moment, by the rule of docs/segments.md, so each measurement comes once. Therefore the servers
// that it reads from must not lag behind by more than about half a minute.
//
// # Bytes
//
// The Meta and the Fields of a Measurement are valid until the next step of the iterator, which reuses their memory. Call Clone
// to keep a measurement longer.
//
// # Errors
//
// Some failures may pass by themselves: no primary, a lost connection, a lost cursor. A reading retries them for up to a minute
// without progress, and then continues where it was. Any other error ends the iterator, with one exception. A *BucketError
// concerns one bucket that cannot be read, and a caller that continues gets the measurements of the other buckets. A *QueryError
// means that the query is wrong and that nothing was read.
//
// # The files
//
//	series.go    opening a time series; Measurement
//	query.go     the query, its plan, and the selection of fields
//	meta.go      the filter on the meta: its normal form, and in which segments its series can be
//	list.go      the series that a filter selects
//	segments.go  the selected measurements in segments
//	find.go      measurements, series after series
//	latest.go    the newest measurement of each series, also of many at once
//	follow.go    measurements as they are stored
//	totals.go    totals by windows of time; windows.go: the bounds of windows; levels.go: the rollups that have them
//	merge.go     merges overlapping buckets in the order of their measurements
//	scan.go      reads buckets: those of one series after the other, or those of many series by one request
//	server.go    the operations that reading needs from a server, with the driver; what a server may or may not support
//	explain.go   what a query costs the server
//	errors.go    errors that callers tell apart; which failures pass, and the retries
package reader
