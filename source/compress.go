package source

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// The codecs of a record batch.
const (
	codecGzip   = 1
	codecSnappy = 2
	codecLZ4    = 3
	codecZstd   = 4
)

// errTooLarge is a record batch that unfolds to more than may be.
var errTooLarge = fmt.Errorf("%w: it unfolds to too many bytes", ErrUnreadable)

// codecs are the decompressors of one fetch at a time, made when first needed.
type codecs struct {
	limit  int // bytes that one record batch may unfold to
	source bytes.Reader
	gzip   *gzip.Reader
	lz4    *lz4.Reader
	zstd   *zstd.Decoder
}

// decompress appends what the source unfolds to.
func (c *codecs) decompress(dst []byte, codec int16, source []byte) ([]byte, error) {
	var err error
	switch codec {
	case codecGzip:
		dst, err = c.fromGzip(dst, source)
	case codecSnappy:
		dst, err = c.fromSnappy(dst, source)
	case codecLZ4:
		dst, err = c.fromLZ4(dst, source)
	case codecZstd:
		dst, err = c.fromZstd(dst, source)
	default:
		return dst, fmt.Errorf("%w: compression %d is not known", ErrUnreadable, codec)
	}
	if err != nil && !errors.Is(err, ErrUnreadable) {
		err = fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return dst, err
}

func (c *codecs) fromGzip(dst, source []byte) ([]byte, error) {
	c.source.Reset(source)
	if c.gzip == nil {
		c.gzip = new(gzip.Reader)
	}
	if err := c.gzip.Reset(&c.source); err != nil {
		return dst, fmt.Errorf("gzip: %w", err)
	}
	dst, err := c.readAll(dst, c.gzip, len(source))
	if err != nil {
		return dst, fmt.Errorf("gzip: %w", err)
	}
	return dst, nil
}

func (c *codecs) fromLZ4(dst, source []byte) ([]byte, error) {
	c.source.Reset(source)
	if c.lz4 == nil {
		c.lz4 = lz4.NewReader(nil)
	}
	c.lz4.Reset(&c.source)
	dst, err := c.readAll(dst, c.lz4, len(source))
	if err != nil {
		return dst, fmt.Errorf("lz4: %w", err)
	}
	return dst, nil
}

func (c *codecs) fromZstd(dst, source []byte) ([]byte, error) {
	if c.zstd == nil {
		var err error
		c.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(c.limit)))
		if err != nil {
			return dst, fmt.Errorf("zstd: %w", err)
		}
	}
	dst, err := c.zstd.DecodeAll(source, dst)
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded), errors.Is(err, zstd.ErrWindowSizeExceeded):
		return dst, errTooLarge
	case err != nil:
		return dst, fmt.Errorf("zstd: %w", err)
	}
	return dst, nil
}

// readAll appends what the reader gives.
func (c *codecs) readAll(dst []byte, r io.Reader, compressed int) ([]byte, error) {
	dst = slices.Grow(dst, 4*compressed)
	for {
		if len(dst) == cap(dst) {
			dst = slices.Grow(dst, len(dst)+512)
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		switch {
		case len(dst) > c.limit:
			return dst, errTooLarge
		case errors.Is(err, io.EOF):
			return dst, nil
		case err != nil:
			return dst, err
		}
	}
}

// xerialMagic begins the framing that Java's producers put around snappy blocks: two versions follow it, then blocks
// with their lengths. Other producers write one bare block.
var xerialMagic = []byte("\x82SNAPPY\x00")

const xerialHeaderBytes = 16

func (c *codecs) fromSnappy(dst, source []byte) ([]byte, error) {
	if !bytes.HasPrefix(source, xerialMagic) {
		return c.fromSnappyBlock(dst, source)
	}
	if len(source) < xerialHeaderBytes {
		return dst, fmt.Errorf("snappy: a header of %d bytes", len(source))
	}
	source = source[xerialHeaderBytes:]
	for len(source) > 0 {
		if len(source) < 4 || uint64(binary.BigEndian.Uint32(source)) > uint64(len(source)-4) {
			return dst, fmt.Errorf("snappy: a block ends early, %d bytes are left", len(source))
		}
		end := 4 + int(binary.BigEndian.Uint32(source))
		var err error
		if dst, err = c.fromSnappyBlock(dst, source[4:end]); err != nil {
			return dst, err
		}
		source = source[end:]
	}
	return dst, nil
}

func (c *codecs) fromSnappyBlock(dst, block []byte) ([]byte, error) {
	size, err := s2.DecodedLen(block)
	if err != nil {
		return dst, fmt.Errorf("snappy: %w", err)
	}
	if size > c.limit-len(dst) {
		return dst, errTooLarge
	}
	have := len(dst)
	dst = slices.Grow(dst, size)[:have+size]
	plain, err := s2.Decode(dst[have:], block)
	if err != nil {
		return dst[:have], fmt.Errorf("snappy: %w", err)
	}
	return dst[:have+len(plain)], nil
}
