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

// compressions lists all compressions.
func compressions() []Compression {
	return []Compression{NoCompression, Gzip, Zlib, Zstd, AutoCompression}
}

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

// compressionOf returns the compression that the first bytes of a value show. Neither JSON nor BSON begins with such bytes.
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

// inflate returns the record's value without the compression that the options announce.
func (d *Decoder) inflate(value []byte) ([]byte, *DecodeError) {
	c := d.compression(value)
	d.unfolded = len(value)
	if c == NoCompression {
		return value, nil
	}
	if shown := compressionOf(value); shown != c {
		return nil, d.notCompressed(value, shown)
	}
	text, err := d.inflater.inflate(value, c)
	d.unfolded = len(text)
	switch {
	case errors.Is(err, errUnfoldsTooFar):
		d.unfolded = d.options.MaxBytes
		return nil, newError(TooLarge, "", "the value has %d bytes and decompresses by %s to more than EVENT_MAX_BYTES = %d", len(value), c, d.options.MaxBytes)
	case errors.Is(err, zstd.ErrUnknownDictionary):
		return nil, newError(BadCompression, "", "the value is compressed by zstd with a dictionary: have its producer compress without one")
	case err != nil:
		return nil, newError(BadCompression, "", "the value begins like %s, but is damaged or truncated: %s", c, quoteText(err.Error()))
	case len(text) == 0:
		return nil, newError(Empty, "", "the value decompresses by %s to 0 bytes: for a tombstone send a null value", c)
	}
	return text, nil
}

// compression returns the compression by which a value is to be decompressed.
func (d *Decoder) compression(value []byte) Compression {
	if d.options.Compression == AutoCompression {
		return compressionOf(value)
	}
	return d.options.Compression
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
	if text, err := d.inflate(value); err == nil {
		return text, d.compression(value)
	}
	return value, NoCompression
}
