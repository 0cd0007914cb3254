package timeseries

// TTLSeconds is the expireAfterSeconds of the TTL index on control.min.<time>: the collection's plus the span, so that
// no measurement goes before its time. 0 means that there is no such index.
func (o Options) TTLSeconds() int32 {
	if o.ExpireAfterSeconds == 0 {
		return 0
	}
	return int32(o.ExpireAfterSeconds + o.Span()/1000)
}

// ExpiredBefore is the largest control.min.<time>, in milliseconds, of the buckets that are expired at a time (now, in
// milliseconds); false when nothing ever expires.
func (o Options) ExpiredBefore(now int64) (minTime int64, ok bool) {
	if o.ExpireAfterSeconds == 0 {
		return 0, false
	}
	return now - int64(o.TTLSeconds())*1000, true
}
