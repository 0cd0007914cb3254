package measurement

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"waterwheel/internal/timeseries/rawbson"
	"waterwheel/internal/words"
)

// Compression is how a producer compresses each value, independently of Kafka's compression of record batches.
type Compression string

// The compressions.
const (
	NoCompression   Compression = "none"
	Gzip            Compression = "gzip"
	Zlib            Compression = "zlib"
	Zstd            Compression = "zstd"
	AutoCompression Compression = "auto" // the compression that a value's first bytes show, or none
)

const (
	gzipMagic = "\x1f\x8b"
	zstdMagic = "\x28\xb5\x2f\xfd"
	// zstdBlock is the largest size of a zstd block after decompression, in bytes.
	zstdBlock = 128 << 10
	// smallestBuffer is the smallest size of a buffer in bytes.
	smallestBuffer = 4 << 10
)

var (
	errUnfoldsTooFar = errors.New("decompresses to more than the limit")
	errTrailing      = errors.New("bytes follow the end of the compressed data")
)

// compressionOf returns the compression that the first bytes of a value show. Neither JSON nor BSON begins with such bytes. An event
// in Avro or Protobuf can begin like zlib.
func compressionOf(value []byte) Compression {
	switch {
	case bytes.HasPrefix(value, []byte(gzipMagic)):
		return Gzip
	case bytes.HasPrefix(value, []byte(zstdMagic)):
		return Zstd
	case isZlib(value):
		return Zlib
	}
	return NoCompression
}

// isZlib reports whether a value has the header of a zlib stream. The header has only two bytes, so isZlib also excludes texts
// and BSON documents.
func isZlib(value []byte) bool {
	const (
		deflate    = 0x08 // with any window up to 32 KiB
		dictionary = 0x20
	)
	if len(value) < 8 || value[0]&0x0f != deflate || value[0]>>4 > 7 || value[1]&dictionary != 0 || (uint(value[0])<<8|uint(value[1]))%31 != 0 {
		return false
	}
	return !utf8.Valid(value) && rawbson.DocumentSize(value) != len(value)
}

// Inflater decompresses values of records. It reuses its buffers, so a result is valid until the next call.
type Inflater struct {
	limit  int
	source bytes.Reader
	gzip   *gzip.Reader
	zlib   io.ReadCloser
	zstd   *zstd.Decoder
	out    []byte
}

// NewInflater returns an Inflater that produces at most limit bytes of a value.
func NewInflater(limit int) *Inflater { return &Inflater{limit: limit} }

// Text returns the decompressed value, and the compression that its first bytes show. If the value cannot be decompressed, Text
// returns it unchanged.
func (f *Inflater) Text(value []byte) ([]byte, Compression) {
	c := compressionOf(value)
	if c == NoCompression {
		return value, c
	}
	text, err := f.inflate(value, c)
	if err != nil {
		return value, NoCompression
	}
	return text, c
}

// inflate decompresses a value.
func (f *Inflater) inflate(value []byte, c Compression) ([]byte, error) {
	f.source.Reset(value)
	switch c {
	case Gzip:
		if f.gzip == nil {
			f.gzip = new(gzip.Reader)
		}
		if err := f.gzip.Reset(&f.source); err != nil {
			return nil, err
		}
		return f.readAll(f.gzip)
	case Zlib:
		if err := f.openZlib(); err != nil {
			return nil, err
		}
		out, err := f.readAll(f.zlib)
		if err == nil && f.source.Len() > 0 {
			err = errTrailing
		}
		return out, err
	default:
		return f.fromZstd(value)
	}
}

func (f *Inflater) openZlib() (err error) {
	if f.zlib == nil {
		f.zlib, err = zlib.NewReader(&f.source)
		return err
	}
	return f.zlib.(zlib.Resetter).Reset(&f.source, nil)
}

// readAll reads to the end, or to the first byte beyond the limit.
func (f *Inflater) readAll(r io.Reader) ([]byte, error) {
	f.out = f.out[:0]
	for {
		if len(f.out) == cap(f.out) {
			f.out = slices.Grow(f.out, min(max(len(f.out), smallestBuffer), f.limit+1-len(f.out)))
		}
		n, err := r.Read(f.out[len(f.out):min(cap(f.out), f.limit+1)])
		f.out = f.out[:len(f.out)+n]
		switch {
		case len(f.out) > f.limit:
			return nil, errUnfoldsTooFar
		case errors.Is(err, io.EOF):
			return f.out, nil
		case err != nil:
			return nil, err
		}
	}
}

// fromZstd decompresses a whole value. The capacity of the buffer is its limit, because a limit of the decoder would also bound
// the window. The window may be larger than the decompressed value. Many producers do not write the decompressed size, so the
// capacity starts small and doubles when the decoder comes near its end.
func (f *Inflater) fromZstd(value []byte) ([]byte, error) {
	if f.zstd == nil {
		var err error
		if f.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true)); err != nil {
			return nil, err
		}
	}
	room := min(f.limit, max(cap(f.out), smallestBuffer, 4*len(value)))
	var header zstd.Header
	if header.Decode(value) == nil && header.HasFCS {
		if header.FrameContentSize > uint64(f.limit) {
			return nil, errUnfoldsTooFar
		}
		room = max(room, int(header.FrameContentSize))
	}
	for {
		f.out = slices.Grow(f.out[:0], room)
		out, err := f.zstd.DecodeAll(value, f.out[:0:room])
		switch {
		case err == nil:
			return out, nil
		// The next block fits into the buffer, so its bytes are damaged.
		case !errors.Is(err, zstd.ErrDecoderSizeExceeded) && room-len(out) > zstdBlock:
			return nil, err
		case room == f.limit:
			return nil, fmt.Errorf("%w, or is damaged: %w", errUnfoldsTooFar, err)
		}
		room = min(2*room+zstdBlock, f.limit)
	}
}

// drop drops the buffer.
func (f *Inflater) drop() { f.out = nil }

// inflate returns a value without its compression, and this compression. The options announce it.
func (d *Decoder) inflate(value []byte) ([]byte, Compression, *DecodeError) {
	c := d.options.Compression
	isGuess := c == AutoCompression
	if isGuess {
		c = compressionOf(value)
	}
	d.unfolded = len(value)
	if c == NoCompression {
		return value, c, nil
	}
	if shown := compressionOf(value); shown != c {
		return nil, c, d.notCompressed(value, shown)
	}
	text, err := d.inflater.inflate(value, c)
	if err != nil && isGuess && c == Zlib && (d.options.Format == Avro || d.options.Format == Protobuf) {
		return value, NoCompression, nil // an event of these formats can begin with the two bytes
	}
	d.unfolded = len(text)
	if err := d.inflated(value, text, c, err); err != nil {
		return nil, c, err
	}
	return text, c, nil
}

// inflated returns the error of a decompressed value. Nil means that there is none.
func (d *Decoder) inflated(value, text []byte, c Compression, err error) *DecodeError {
	switch {
	case errors.Is(err, errUnfoldsTooFar):
		d.unfolded = d.options.MaxBytes
		return newError(TooLarge, "", "the value has %d bytes and decompresses by %s to more than EVENT_MAX_BYTES = %d", len(value), c, d.options.MaxBytes)
	case errors.Is(err, zstd.ErrUnknownDictionary):
		return newError(BadCompression, "", "the value is compressed by zstd with a dictionary: have its producer compress without one")
	case err != nil:
		return newError(BadCompression, "", "the value begins like %s, but is damaged or truncated: %s", c, quoteText(err.Error()))
	case len(text) == 0:
		return newError(Empty, "", "the value decompresses by %s to 0 bytes: for a tombstone send a null value", c)
	}
	return nil
}

// notCompressed is the error of a value that is not compressed as the options say. shown is the compression that its first bytes
// show.
func (d *Decoder) notCompressed(value []byte, shown Compression) *DecodeError {
	c := d.options.Compression
	switch form := formOf(value); {
	case shown != NoCompression:
		return newError(BadCompression, "", "the value is compressed by %s, but EVENT_COMPRESSION=%s: correct the setting, or set EVENT_COMPRESSION=auto if producers use both", shown, c)
	case isJSONStart(value):
		return newError(BadCompression, "", "%s is JSON that is not compressed, but EVENT_COMPRESSION=%s: have its producer compress it, or set EVENT_COMPRESSION=auto if only some values are compressed", quoteText(value), c)
	case form != "":
		return newError(BadCompression, "", "the value is not compressed by %s, which EVENT_COMPRESSION requires, and %s", c, form)
	}
	return newError(BadCompression, "", "%s is not compressed by %s, which EVENT_COMPRESSION requires: have its producer compress it, or set EVENT_COMPRESSION=auto if only some values are compressed", quoteText(value), c)
}

// ValueBytes returns the decompressed size of the last decoded record's value in bytes. For a value beyond the limit it returns
// MaxBytes.
func (d *Decoder) ValueBytes() int { return d.unfolded }

// Text returns a value without the compression that the options announce, and this compression. If the value cannot be
// decompressed, Text returns it unchanged. The result is valid until the next call of the decoder.
func (d *Decoder) Text(value []byte) ([]byte, Compression) {
	if text, c, err := d.inflate(value); err == nil {
		return text, c
	}
	return value, NoCompression
}

// deflater compresses elements of one record. Its encoders are large, and few records have dead letters of single elements, so it
// makes them on demand.
type deflater struct {
	gzip *gzip.Writer
	zlib *zlib.Writer
	zstd *zstd.Encoder
}

// deflate compresses a value.
func (f *deflater) deflate(c Compression, value []byte) []byte {
	var out bytes.Buffer
	var err error
	switch c {
	case Gzip:
		if f.gzip == nil {
			f.gzip = gzip.NewWriter(nil)
		}
		f.gzip.Reset(&out)
		_, err = f.gzip.Write(value)
		err = errors.Join(err, f.gzip.Close())
	case Zlib:
		if f.zlib == nil {
			f.zlib = zlib.NewWriter(nil)
		}
		f.zlib.Reset(&out)
		_, err = f.zlib.Write(value)
		err = errors.Join(err, f.zlib.Close())
	case Zstd:
		if f.zstd == nil {
			f.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
		}
		if err == nil {
			return f.zstd.EncodeAll(value, nil)
		}
	default:
		return value
	}
	if err != nil {
		panic("waterwheel: compressing to memory: " + err.Error())
	}
	return out.Bytes()
}

// frameBytes is the size of a schema registry's frame, which is a zero byte and the schema's id.
const frameBytes = 5

// hasFrame reports whether a value begins with what may be a schema registry's frame.
func hasFrame(value []byte) bool { return len(value) >= frameBytes && value[0] == 0 }

// cutFrame splits a value into its frame and the rest. The frame is empty if the options announce none or the value has none. The
// rest has no byte order mark, which some producers write before it.
func (d *Decoder) cutFrame(value []byte) (frame, text []byte) {
	if d.options.Framing != NoFraming && hasFrame(value) {
		frame, value = value[:frameBytes], value[frameBytes:]
	}
	return frame, bytes.TrimPrefix(value, []byte(byteOrderMark))
}

// checkFrame refuses a record that lacks the announced frame, and a record with a frame that is not announced.
func (d *Decoder) checkFrame() *DecodeError {
	announced := d.options.Framing == Confluent
	if len(d.wrap.frame) > 0 || !announced && (len(d.text) == 0 || d.text[0] != 0) {
		return nil
	}
	switch form := d.formOf(d.text); {
	case form != "":
		return newError(NotJSON, "", "the value %s", form)
	case len(bytes.Trim(d.text, "\x00")) == 0 && len(d.text) > 0:
		return newError(NotJSON, "", "the value has only %s: have its producer leave out the zero byte that ends a string in C", words.Count(len(d.text), "zero byte"))
	case announced:
		return newError(NotJSON, "", "%s does not begin with a zero byte and a schema's id, but EVENT_FRAMING=confluent requires both: "+
			"send it with a serializer of a schema registry, or set EVENT_FRAMING=auto if only some records have such a frame", quoteText(d.text))
	case hasFrame(d.text) && isJSONStart(d.text[frameBytes:]):
		return newError(NotJSON, "", "%s begins with the frame of a schema registry, and JSON follows: set EVENT_FRAMING=confluent", quoteText(d.text))
	case hasLongFrame(d.text):
		return newError(NotJSON, "", "%s begins with the frame of a schema registry whose ids have %s", quoteText(d.text), longIDs)
	}
	return newError(NotJSON, "", "%s begins with a zero byte, like the frame of a schema registry, but no JSON follows: "+
		framedOther, quoteText(d.text))
}

// framedOther ends a sentence about a frame that something else than JSON follows.
const framedOther = "for Avro or Protobuf set SCHEMA_REGISTRY_URL and EVENT_FORMAT=avro or EVENT_FORMAT=protobuf, otherwise send JSON"

// longIDs ends a sentence about a frame with a longer id.
const longIDs = "eight bytes: let its serializer write ids of four bytes, as Confluent's does, and set EVENT_FRAMING=confluent"

// hasLongFrame reports whether JSON follows a frame whose schema id has eight bytes.
func hasLongFrame(value []byte) bool {
	return hasFrame(value) && len(value) > 2*frameBytes-1 && isJSONStart(value[2*frameBytes-1:])
}

// notJSON explains why a value does not begin as JSON. err is the reader's error.
func (d *Decoder) notJSON(err *DecodeError) *DecodeError {
	what := "the value "
	if len(d.wrap.frame) > 0 {
		what = "the text after the frame of EVENT_FRAMING=" + string(d.options.Framing) + " "
	}
	switch form := d.formOf(d.text); {
	case err.Reason != NotJSON:
		return err
	case form != "":
		return newError(NotJSON, "", "%s%s", what, form)
	case hasLongFrame(d.value):
		return newError(NotJSON, "", "the frame of EVENT_FRAMING=%s has an id that seems to have %s", d.options.Framing, longIDs)
	case len(d.wrap.frame) > 0:
		return newError(NotJSON, "", "%sis not JSON: %s; "+framedOther, what, quoteText(d.text))
	}
	return err
}

// isJSONStart reports whether a text begins as an object or an array does.
func isJSONStart(text []byte) bool {
	text = bytes.TrimLeft(text, " \t\r\n")
	return len(text) > 0 && (text[0] == '{' || text[0] == '[')
}

// wrapping is the compression and the frame around the events of a record's value.
type wrapping struct {
	compression Compression // the outermost layer
	frame       []byte      // the frame of a schema registry. Empty means none.
}

// unwrap removes the wrapping of a value that can be read without its key and headers.
func (d *Decoder) unwrap(value []byte) (w wrapping, text []byte, err *DecodeError) {
	if text, w.compression, err = d.inflate(value); err != nil {
		return w, nil, err
	}
	switch d.options.Format {
	case BSON, OTLP, Avro, Protobuf:
	case Influx, OTLPJSON:
		text = bytes.TrimPrefix(text, []byte(byteOrderMark))
	default:
		w.frame, text = d.cutFrame(text)
	}
	return w, text, nil
}

// wrapped returns an element of a record as a value of its own. It has the record's wrapping, so that it can be produced to the
// record's topic again.
func (d *Decoder) wrapped(w wrapping, element []byte) []byte {
	if element == nil {
		return nil
	}
	if len(w.frame) > 0 {
		element = append(bytes.Clone(w.frame), element...)
	}
	return d.deflater.deflate(w.compression, element)
}

// formOf is the function formOf for the content of the wrapping. It does not undo a second compression inside of the wrapping.
func (d *Decoder) formOf(text []byte) string {
	inside := len(d.wrap.frame) > 0 || d.wrap.compression != NoCompression
	if c := compressionOf(text); inside && c != NoCompression {
		return "is compressed by " + string(c) + " inside its frame or another compression, which is not supported: " + compressKafka
	}
	return formOf(text)
}
