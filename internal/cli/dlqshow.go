package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/config"
	"waterwheel/dlq"
	"waterwheel/internal/cli/text"
	"waterwheel/internal/connect"
	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
	"waterwheel/internal/words"
)

// errNoDeadLetter means that there is no letter at the requested place.
var errNoDeadLetter = errors.New("no such dead letter")

func (p *Program) dlqShowCommand() *cobra.Command {
	var raw bool
	var place record.Place
	cmd := p.onDeadLetters(&cobra.Command{
		Use:   "show TOPIC/PARTITION/OFFSET",
		Short: "Print one dead letter with its record",
		Long: "Prints a dead letter, its record, and a mark below the field that is wrong. Give the topic, partition and offset of the\n" +
			"letter in a dead-letter topic, or of its record in the topic it comes from. A record may have several letters.\n" +
			"The command also reports whether the current settings can read the record.",
		Example: "  waterwheel dlq show events.dlq/0/12\n  waterwheel dlq show events/3/182 --raw > record.json",
		Args: func(cmd *cobra.Command, args []string) (err error) {
			if len(args) != 1 {
				return usageError{fmt.Errorf("%q needs one argument: TOPIC/PARTITION/OFFSET", cmd.CommandPath())}
			}
			place, err = parsePlace(args[0])
			return err
		},
	}, func(config.Config) error { return nil }, func(ctx context.Context, from *deadLetters) error {
		again, err := newRetrial(ctx, from.config)
		if err != nil {
			return err
		}
		return p.showDeadLetters(ctx, from, place, func(f *dlq.Found) error {
			if raw {
				_, err := p.Stdout.Write(f.Letter.Value)
				return err
			}
			now, unknown := again.of(f)
			value, by := again.decoderOf(&f.Letter).Text(f.Letter.Value)
			return p.show(newShownDeadLetter(f, value, now, unknown), func(w io.Writer) {
				printDeadLetter(w, f, now, unknown)
				shown, format := again.readable(f, value, measurement.Format(from.config.ForTopic(f.Letter.Topic).Event.Format))
				printValue(w, &f.Letter, len(value), by, markedValue(shown, format, failingPath(&f.Letter, now)))
			})
		})
	})
	cmd.Flags().BoolVar(&raw, "raw", false, "write only the value of the record, unchanged")
	return cmd
}

// parsePlace parses topic/partition/offset.
func parsePlace(text string) (record.Place, error) {
	place, err := record.ParsePlace(text)
	if err != nil {
		return place, usageError{fmt.Errorf("%q %w", text, err)}
	}
	return place, nil
}

// showDeadLetters calls show for the letter at a place of a dead-letter topic. For a place of a source topic, it calls show for
// every letter of that record. It returns an error if there is none.
func (p *Program) showDeadLetters(ctx context.Context, from *deadLetters, place record.Place, show func(*dlq.Found) error) error {
	n := 0
	counted := func(f *dlq.Found) error {
		if n++; f.Err != nil {
			return fmt.Errorf("%s: %w", f.Place, f.Err)
		}
		return show(f)
	}
	err := p.atPlace(ctx, from, place, counted)
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: %s; \"waterwheel dlq list\" shows the topic, partition and offset of each letter and of its record", errNoDeadLetter, place)
	}
	return err
}

func (p *Program) atPlace(ctx context.Context, from *deadLetters, place record.Place, each func(*dlq.Found) error) error {
	if !slices.Contains(from.topics, place.Topic) {
		return p.scan(ctx, from, func(f *dlq.Found) error {
			if f.Err == nil && f.Letter.Place == place {
				return each(f)
			}
			return nil
		})
	}
	spans, err := dlq.Spans(ctx, from, []string{place.Topic})
	if err != nil {
		return err
	}
	return dlq.At(ctx, from, spans, place, each)
}

// retrial decodes records of letters with the present settings of their topics. For topics that are no longer read it uses the
// general settings, which have the name "".
type retrial map[string]*measurement.Decoder

func newRetrial(ctx context.Context, c config.Config) (retrial, error) {
	r := retrial{}
	registry, err := connect.Registry(c, nil)
	if err != nil {
		return r, err
	}
	for _, topic := range append([]string{""}, c.Kafka.Topics...) {
		decoder, _, err := connect.NewAskingDecoder(ctx, c.ForTopic(topic), registry)
		if err != nil {
			return r, err
		}
		r[topic] = decoder
	}
	return r, nil
}

// decoderOf returns the decoder for the source topic of a letter's record.
func (r retrial) decoderOf(l *record.DeadLetter) *measurement.Decoder {
	return cmp.Or(r[l.Topic], r[""])
}

// readable returns a value and its format. If people cannot read the bytes, it returns the event as BSON.
func (r retrial) readable(f *dlq.Found, value []byte, format measurement.Format) ([]byte, measurement.Format) {
	if format == measurement.Avro || format == measurement.Protobuf {
		if events := r.decoderOf(&f.Letter).Events(recordOf(f)); len(events) == 1 {
			return events[0], measurement.BSON
		}
	}
	return value, format
}

// recordOf returns the record of a letter.
func recordOf(f *dlq.Found) record.Record {
	l := &f.Letter
	return record.Record{Offset: l.Offset, Timestamp: l.Timestamp, Key: l.Key, Value: l.Value, Headers: record.EncodeHeaders(f.Headers)}
}

// of returns what the present settings find wrong with a letter's record. Nil means nothing. The error says why this is unknown
// for now.
func (r retrial) of(f *dlq.Found) (wrong *measurement.DecodeError, err error) {
	results, err := r.decoderOf(&f.Letter).TryDecode(recordOf(f))
	if errors.As(err, &wrong) {
		return wrong, nil
	}
	for _, one := range results {
		if one.Err != nil {
			return one.Err, nil
		}
	}
	return nil, err
}

// reasons returns a function that returns the reason for which a letter's record would become a letter again. It keeps the first
// error in failed.
func (r retrial) reasons(failed *error) func(*dlq.Found) string {
	return func(f *dlq.Found) string {
		wrong, err := r.of(f)
		switch {
		case wrong != nil:
			return string(wrong.Reason)
		case err != nil && *failed == nil:
			*failed = fmt.Errorf("checking the dead letter %s: %w", f.Place, err)
		}
		return ""
	}
}

// failingPath returns the path of the wrong field. If the present settings reject the record for the same reason, it is their
// path. Otherwise it is the path in the letter's message.
func failingPath(l *record.DeadLetter, now *measurement.DecodeError) string {
	if now != nil && string(now.Reason) == l.Reason {
		return now.Path
	}
	if rest, ok := strings.CutPrefix(l.Message, l.Reason+" at "); ok {
		path, _, _ := strings.Cut(rest, ": ")
		return path
	}
	return ""
}

func printDeadLetter(w io.Writer, f *dlq.Found, now *measurement.DecodeError, unknown error) {
	l, row := &f.Letter, newDeadLetterRow(f)
	table := text.NewTable(w)
	table.Row("letter", row.DeadLetter)
	table.Row("from", row.from())
	table.Row("time", row.Time)
	table.Row("reason", l.Reason)
	table.Row("message", l.Message)
	table.Row("attempt", f.Attempt)
	if f.Stage != "" {
		table.Row("stage", f.Stage)
	}
	if l.Cut != "" {
		table.Row("cut", "the letter is incomplete and cannot be redriven; missing or truncated: "+l.Cut)
	}
	table.Row("key", formatKey(w, l.Key))
	for _, h := range f.Headers {
		table.Row("header", h.Key+" = "+formatKey(w, h.Value))
	}
	table.Row("now", verdictNow(l, now, unknown))
	table.Flush()
}

// printValue prints a letter's value. size is its decompressed size, and text its formatted content.
func printValue(w io.Writer, l *record.DeadLetter, size int, by measurement.Compression, text string) {
	if l.Value == nil {
		fmt.Fprint(w, "\nThe value is null.\n\n")
		return
	}
	if by != measurement.NoCompression {
		fmt.Fprintf(w, "\nThe value is compressed by %s (%s), and is %s long when decompressed:\n", by, words.Count(len(l.Value), "byte"), words.Count(size, "byte"))
	}
	fmt.Fprintf(w, "\n%s\n", text)
}

// verdictNow says what would become of the record if it were redriven. unknown is the reason if this is not known.
func verdictNow(l *record.DeadLetter, now *measurement.DecodeError, unknown error) string {
	switch {
	case unknown != nil:
		return "unknown: " + unknown.Error()
	case now != nil && now.Error() == l.Message:
		return "it would be refused again with the current settings"
	case now != nil:
		return "the current settings refuse it: " + now.Error()
	case l.RefusedByDatabase:
		return "the current settings can read it; redrive it to see whether MongoDB accepts it"
	}
	return "the current settings can read it: it may be redriven"
}

// formatKey formats bytes that are often text.
func formatKey(w io.Writer, b []byte) string {
	const most = 256
	if b == nil {
		return "null"
	}
	return text.Fit(w, strconv.Quote(string(b)), most)
}

// ShownDeadLetter is the JSON output of dlq show. Bytes are base64.
type ShownDeadLetter struct {
	DeadLetterRow
	TopicID string          `json:"topicId,omitempty"`
	Key     []byte          `json:"key"`
	Value   []byte          `json:"value"`
	Headers []record.Header `json:"headers"`
	// Path leads to the wrong field. Now is what the present settings find wrong. Empty means nothing.
	Path string `json:"path,omitempty"`
	Now  string `json:"now,omitempty"`
	// Unknown is why it is unknown what the present settings find.
	Unknown string `json:"unknown,omitempty"`
	// Text is the value, decompressed if necessary, if it is text.
	Text string `json:"text,omitempty"`
}

func newShownDeadLetter(f *dlq.Found, value []byte, now *measurement.DecodeError, unknown error) ShownDeadLetter {
	l := &f.Letter
	s := ShownDeadLetter{DeadLetterRow: newDeadLetterRow(f), Key: l.Key, Value: l.Value, Headers: append([]record.Header{}, f.Headers...), Path: failingPath(l, now)}
	if l.TopicID != ([16]byte{}) {
		s.TopicID = record.FormatTopicID(l.TopicID)
	}
	if now != nil {
		s.Now = now.Error()
	}
	if unknown != nil {
		s.Unknown = unknown.Error()
	}
	if isText(value) {
		s.Text = string(value)
	}
	return s
}

// shownBytes is how much is shown of a value that is not text.
const shownBytes = 1 << 10

// markedValue formats a record's value for a person. It marks the field at a dotted path, or the place where the text stops being
// JSON, with a line of carets. It changes only the white space of a JSON value. It shows lines as they are.
func markedValue(value []byte, format measurement.Format, path string) string {
	if format == measurement.Influx && isText(value) {
		return withCarets(value, span{-1, -1})
	}
	if format == measurement.BSON {
		if raw := bson.Raw(value); raw.Validate() == nil {
			if text, err := bson.MarshalExtJSONIndent(raw, false, false, "", "  "); err == nil {
				return marked(text, path)
			}
		}
		return hexDump(value)
	}
	var text bytes.Buffer
	err := json.Indent(&text, value, "", "  ")
	if err == nil {
		return marked(text.Bytes(), path)
	}
	if !isText(value) {
		return hexDump(value)
	}
	at := len(value)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		at = max(0, int(syntax.Offset)-1)
	}
	return withCarets(value, span{at, at + 1})
}

// isText reports whether most of a value is readable text.
func isText(value []byte) bool {
	const tolerated = 10 // of a hundred
	odd := 0
	for rest := value; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		if r == utf8.RuneError && n == 1 || text.IsControl(r) && !strings.ContainsRune("\r\n\t", r) {
			odd++
		}
		rest = rest[n:]
	}
	return odd*100 <= len(value)*tolerated
}

func hexDump(value []byte) string {
	text := hex.Dump(value[:min(len(value), shownBytes)])
	if len(value) > shownBytes {
		text += "… " + strconv.Itoa(len(value)-shownBytes) + " bytes more: --raw writes all\n"
	}
	return text
}

// span is a part of a text, in bytes.
type span struct{ start, end int }

func marked(text []byte, path string) string {
	if path == "" {
		return withCarets(text, span{-1, -1})
	}
	return withCarets(text, fieldAt(text, path))
}

// nesting is an object or array that contains the current line of indented JSON.
type nesting struct {
	at   string // its path
	list bool
	next int // index of the next element of a list
}

// fieldAt returns the position of the field at a path in indented JSON, where each field begins a line. If there is no such
// field, it returns the object that lacks it. Of repeated names the last counts, because that one is wrong.
func fieldAt(text []byte, wanted string) span {
	found, length := span{0, 1}, 0
	var in []nesting
	start := 0
	for line := range bytes.Lines(text) {
		at := start + len(line) - len(bytes.TrimLeft(line, " "))
		start += len(line)
		field := string(bytes.TrimRight(bytes.TrimSpace(line), ","))
		if field == "" || field == "}" || field == "]" {
			in = in[:max(0, len(in)-1)]
			continue
		}
		path := ""
		if len(in) > 0 {
			path = in[len(in)-1].path(field)
			if strings.HasPrefix(wanted+".", path+".") && len(path) >= length {
				found, length = span{at, at + len(field)}, len(path)
			}
		}
		if last := field[len(field)-1]; last == '{' || last == '[' {
			in = append(in, nesting{at: path, list: last == '['})
		}
	}
	return found
}

// path returns the path of the field on a line.
func (n *nesting) path(field string) string {
	name := strconv.Itoa(n.next)
	n.next++
	if !n.list {
		token, _ := json.NewDecoder(strings.NewReader(field)).Token()
		name, _ = token.(string)
	}
	return strings.TrimPrefix(n.at+"."+name, ".")
}

// withCarets formats a text in printable form, with carets under the first line of a span.
func withCarets(text []byte, at span) string {
	var b strings.Builder
	start := 0
	for line := range bytes.Lines(text) {
		end := start + len(line)
		visible := bytes.TrimRight(line, "\r\n")
		b.WriteString(printableLine(visible))
		b.WriteByte('\n')
		if at.start >= start && (at.start < end || end == len(text)) {
			from := min(at.start-start, len(visible))
			to := max(from, min(at.end-start, len(visible)))
			b.WriteString(strings.Repeat(" ", width(visible[:from])))
			b.WriteString(strings.Repeat("^", max(1, width(visible[from:to]))))
			b.WriteByte('\n')
		}
		start = end
	}
	return b.String()
}

// printableLine shows each tab as one space, so that carets are below the right characters.
func printableLine(line []byte) string {
	return text.Printable(strings.ReplaceAll(string(line), "\t", " "))
}

func width(line []byte) int { return utf8.RuneCountInString(printableLine(line)) }
