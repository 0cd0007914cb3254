package serve

import (
	"bufio"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"strconv"
	"time"

	"waterwheel/internal/cli/rows"
	"waterwheel/reader"
)

const (
	// buffered is how much of an answer is buffered. An error before the buffer is full can still set the status of the answer.
	buffered = 64 << 10
	// flushEvery is the longest time that rows wait in the buffer.
	flushEvery = 500 * time.Millisecond
)

// These are trailers of an answer, which follow its rows.
const (
	trailerMore       = "Waterwheel-More"               // true if the limit cut off the answer
	trailerUnreadable = "Waterwheel-Unreadable-Buckets" // how many buckets could not be read
)

// answer is written while the rows are read.
type answer struct {
	w       http.ResponseWriter
	out     *bufio.Writer
	rows    int64
	closing string // the text that ends it
	row     []byte
	flushed time.Time
	sent    bool // a part of it was sent
}

func newAnswer(w http.ResponseWriter) *answer {
	a := &answer{w: w, flushed: time.Now()}
	a.out = bufio.NewWriterSize(sending{a}, buffered)
	return a
}

// sending records that a part of the answer was sent.
type sending struct{ *answer }

func (s sending) Write(p []byte) (int, error) {
	s.sent = true
	return s.w.Write(p)
}

// begin sets the headers and writes the opening.
func (a *answer) begin(kind, opening, closing string) {
	a.w.Header().Set("Content-Type", kind)
	a.w.Header().Set("Trailer", trailerMore+", "+trailerUnreadable)
	_, _ = a.out.WriteString(opening) // into the buffer
	a.closing = closing
}

// add writes the next element of an array.
func (a *answer) add(element []byte) error {
	if a.rows > 0 {
		_, _ = a.out.WriteString(",\n")
	}
	_, err := a.out.Write(element)
	return errors.Join(err, a.wrote())
}

// wrote counts a row, and flushes the buffer if rows have waited too long.
func (a *answer) wrote() error {
	a.rows++
	if time.Since(a.flushed) < flushEvery {
		return nil
	}
	a.flushed = time.Now()
	if err := a.out.Flush(); err != nil {
		return err
	}
	return http.NewResponseController(a.w).Flush()
}

// reaches reports whether the answer has as many rows as the limit. If so, a trailer tells the client that there are more.
func (a *answer) reaches(limit int64) bool {
	if a.rows < limit {
		return false
	}
	a.w.Header().Set(trailerMore, "true")
	return true
}

// end writes the rest of the answer.
func (a *answer) end() error {
	_, _ = a.out.WriteString(a.closing)
	return a.out.Flush()
}

// collections answers with the names of the time series.
func (h *handler) collections(a *answer, r *http.Request) error {
	names, err := h.Names(r.Context())
	if err != nil {
		return err
	}
	a.begin("application/json", "[", "]\n")
	for _, name := range names {
		quoted, _ := json.Marshal(name)
		if err := a.add(quoted); err != nil {
			return err
		}
	}
	return nil
}

// series answers with the metas of series.
func (h *handler) series(a *answer, r *http.Request) error {
	q, err := h.parse(r, seriesParameters)
	if err != nil {
		return err
	}
	if q.csv {
		return requestError{errors.New("format=csv is for measurements and totals: request series with format=json")}
	}
	a.begin("application/json", "[", "]\n")
	for meta, err := range q.from.Series(r.Context(), q.Query) {
		if err != nil {
			return err
		}
		if a.reaches(q.limit) {
			break
		}
		a.row = q.rows.AppendFlatMeta(a.row[:0], meta)
		if err := a.add(a.row); err != nil {
			return err
		}
	}
	return nil
}

// measurements answers with rows of measurements.
func (h *handler) measurements(a *answer, r *http.Request) error {
	q, err := h.parse(r, measurementParameters)
	if err != nil {
		return err
	}
	found := q.from.Find
	if q.latest {
		found = q.from.Latest
	}
	return h.table(a, q, found(r.Context(), q.Query))
}

// totals answers with windows.
func (h *handler) totals(a *answer, r *http.Request) error {
	q, err := h.parse(r, totalsParameters)
	if err != nil {
		return err
	}
	t, err := readTotals(q.values)
	if err != nil {
		return err
	}
	q.rows.Fields, q.rows.Flat, t.Zone = nil, true, q.rows.Location // each field has several columns
	t.Query = q.Query
	return h.table(a, q, func(yield func(reader.Measurement, error) bool) {
		for w, err := range q.from.Totals(r.Context(), t) {
			if !yield(reader.Measurement{Time: w.Time, Meta: w.Meta, Fields: w.Fields}, err) {
				return
			}
		}
	})
}

// table writes rows in the format that the request asks for.
func (h *handler) table(a *answer, q *request, found iter.Seq2[reader.Measurement, error]) error {
	var table rows.Writer
	if q.csv {
		a.begin("text/csv; charset=utf-8", "", "")
		table = rows.NewCSV(a.out, q.rows)
	} else {
		a.begin("application/json", "[", "]\n")
	}
	unreadable := 0
	for m, err := range found {
		var bucket *reader.BucketError
		if errors.As(err, &bucket) {
			unreadable++
			h.Log.Warn("a bucket cannot be read: the answer lacks the measurements of this bucket", "err", err)
			continue
		}
		if err != nil {
			return err
		}
		if a.reaches(q.limit) {
			break
		}
		row := rows.Row{Time: m.Time, Meta: m.Meta, Fields: m.Fields}
		if table != nil {
			if err := errors.Join(table.Write(row), a.wrote()); err != nil {
				return err
			}
			continue
		}
		a.row = q.rows.AppendFlat(a.row[:0], row)
		if err := a.add(a.row); err != nil {
			return err
		}
	}
	if unreadable > 0 {
		a.w.Header().Set(trailerUnreadable, strconv.Itoa(unreadable))
	}
	if table != nil {
		return table.Flush()
	}
	return nil
}
