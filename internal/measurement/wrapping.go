package measurement

import (
	"bytes"
	"errors"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// wrapping is the compression and the frame around the events of a record's value.
type wrapping struct {
	compression Compression // the outermost layer
	frame       []byte      // the frame of a schema registry. Empty means none.
}

// unwrap removes the wrapping of a value that can be read without its key and headers.
func (d *Decoder) unwrap(value []byte) (w wrapping, text []byte, err *DecodeError) {
	w.compression = d.compression(value)
	if text, err = d.inflate(value); err != nil {
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
