package recordbatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

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

// errTooLarge means that a record batch did not unfold within the limit of its decoder. If it was unfolded whole, it is then
// unfolded piece by piece. The text names the limits of the streams, which are final.
var errTooLarge = fmt.Errorf("%w: it decompresses to more than %d MiB, or needs a compression window of more than %d MiB (zstd's ultra levels, or one snappy block)",
	ErrUnreadable, maxBatchBytes>>20, maxWindow>>20)

// codecs are decompressors for one user at a time. Each is made when first needed.
type codecs struct {
	limit  int // bytes that a record batch may unfold to, or that a stream may refer back
	source bytes.Reader
	gzip   *gzip.Reader
	lz4    *lz4.Reader
	zstd   *zstd.Decoder // unfolds whole batches into scratch
	stream *zstd.Decoder // unfolds piece by piece
	// scratch is the buffer of zstd.
	scratch []byte
}

// decompress appends the unfolded source to dst.
func (c *codecs) decompress(dst []byte, codec int16, source []byte) ([]byte, error) {
	var err error
	switch codec {
	case codecSnappy:
		dst, err = c.fromSnappy(dst, source)
	case codecZstd:
		dst, err = c.fromZstd(dst, source)
	default:
		var r io.Reader
		if r, err = c.open(codec, source); err == nil {
			dst, err = c.readAll(dst, r, len(source))
		}
	}
	if err != nil {
		err = decompressing(codec, err)
	}
	return dst, err
}

// open begins to unfold a payload piece by piece.
func (c *codecs) open(codec int16, payload []byte) (io.Reader, error) {
	c.source.Reset(payload)
	switch codec {
	case codecGzip:
		return c.gzipReader()
	case codecSnappy:
		return c.blocks(payload)
	case codecLZ4:
		return c.lz4Reader(), nil
	case codecZstd:
		return c.zstdReader(payload)
	}
	return nil, fmt.Errorf("%w: compression type %d is not supported", ErrUnreadable, codec)
}

// decompressing turns an error of decompression into one about the record batch.
func decompressing(codec int16, err error) error {
	switch {
	case errors.Is(err, ErrUnreadable), errors.Is(err, ErrCorrupt):
		return err
	case errors.Is(err, zstd.ErrDecoderSizeExceeded), errors.Is(err, zstd.ErrWindowSizeExceeded):
		return errTooLarge
	}
	return fmt.Errorf("%w: %s: %w", ErrCorrupt, [...]string{codecGzip: "gzip", codecSnappy: "snappy", codecLZ4: "lz4", codecZstd: "zstd"}[codec], err)
}

func (c *codecs) gzipReader() (io.Reader, error) {
	if c.gzip == nil {
		c.gzip = new(gzip.Reader)
	}
	return c.gzip, c.gzip.Reset(&c.source)
}

func (c *codecs) lz4Reader() io.Reader {
	if c.lz4 == nil {
		c.lz4 = lz4.NewReader(nil)
	}
	c.lz4.Reset(&c.source)
	return c.lz4
}

func (c *codecs) fromZstd(dst, source []byte) ([]byte, error) {
	plain, err := c.wholeZstd(source)
	if err != nil {
		// A decoder without room may report any error, even damage. Only a stream has all the room that it needs, so only its
		// errors mean damage.
		return dst, errTooLarge
	}
	return append(slices.Grow(dst, len(plain)), plain...), nil
}

// wholeZstd unfolds into scratch. After an error it returns as many whole blocks as it could unfold. Java producers do not
// announce the unfolded size, and the decoder's own limit would also limit the window. So the capacity of scratch is the limit.
func (c *codecs) wholeZstd(source []byte) ([]byte, error) {
	if c.zstd == nil {
		var err error
		c.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			return nil, err
		}
		c.scratch = make([]byte, 0, c.limit)
	}
	return c.zstd.DecodeAll(source, c.scratch)
}

// zstdBlock is the largest size of an unfolded zstd block.
const zstdBlock = 128 << 10

// zstdReader unfolds piece by piece. If the window is larger than the limit, it unfolds the whole payload, because the window may
// be larger than all the unfolded data. It keeps only one of the two decoders, because each takes as much memory as the limit.
func (c *codecs) zstdReader(payload []byte) (io.Reader, error) {
	var header zstd.Header
	if header.Decode(payload) == nil && header.WindowSize > uint64(c.limit) {
		c.stream = nil
		plain, err := c.wholeZstd(payload)
		if err != nil && c.limit-len(plain) < zstdBlock {
			err = errTooLarge // there was no room for another block
		}
		c.source.Reset(plain)
		return &c.source, err
	}
	c.zstd, c.scratch = nil, nil
	if c.stream == nil {
		var err error
		c.stream, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(uint64(c.limit)))
		if err != nil {
			return nil, err
		}
	}
	return c.stream, c.stream.Reset(&c.source)
}

// readAll appends all bytes of r to dst.
func (c *codecs) readAll(dst []byte, r io.Reader, compressed int) ([]byte, error) {
	dst = slices.Grow(dst, min(4*compressed, c.limit)+1)
	for {
		if len(dst) == cap(dst) {
			dst = slices.Grow(dst, min(len(dst)+512, c.limit+1))
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

// xerialMagic begins the framing of Java producers around snappy blocks. Two versions follow it, and then blocks with their
// lengths. Other producers write one bare block.
var xerialMagic = []byte("\x82SNAPPY\x00")

const xerialHeaderBytes = 16

func (c *codecs) fromSnappy(dst, source []byte) ([]byte, error) {
	if !bytes.HasPrefix(source, xerialMagic) {
		return appendBlock(dst, source, c.limit)
	}
	source, err := framed(source)
	for len(source) > 0 && err == nil {
		var block []byte
		if block, source, err = nextBlock(source); err == nil {
			dst, err = appendBlock(dst, block, c.limit)
		}
	}
	return dst, err
}

// framed returns what follows the framing's header.
func framed(source []byte) ([]byte, error) {
	if len(source) < xerialHeaderBytes {
		return nil, fmt.Errorf("the header has only %d bytes", len(source))
	}
	return source[xerialHeaderBytes:], nil
}

// nextBlock cuts the first block off a framed payload.
func nextBlock(source []byte) (block, rest []byte, err error) {
	if len(source) < 4 || uint64(binary.BigEndian.Uint32(source)) > uint64(len(source)-4) {
		return nil, nil, fmt.Errorf("a block is incomplete: only %d bytes are left", len(source))
	}
	end := 4 + int(binary.BigEndian.Uint32(source))
	return source[4:end], source[end:], nil
}

// appendBlock appends one unfolded snappy block to dst.
func appendBlock(dst, block []byte, limit int) ([]byte, error) {
	size, err := s2.DecodedLen(block)
	if err != nil {
		return dst, err
	}
	if size > limit-len(dst) {
		return dst, errTooLarge
	}
	have := len(dst)
	dst = slices.Grow(dst, size)[:have+size]
	plain, err := s2.Decode(dst[have:], block)
	if err != nil {
		return dst[:have], err
	}
	return dst[:have+len(plain)], nil
}

// blocks reads the unfolded blocks of a snappy payload, one after the other.
type blocks struct {
	framed []byte // blocks that are not unfolded yet
	plain  []byte // the last unfolded block
	rest   []byte // unread bytes of plain
	limit  int
}

func (c *codecs) blocks(payload []byte) (_ *blocks, err error) {
	b := &blocks{limit: c.limit}
	if !bytes.HasPrefix(payload, xerialMagic) {
		b.plain, err = appendBlock(nil, payload, b.limit)
		b.rest = b.plain
		return b, err
	}
	b.framed, err = framed(payload)
	return b, err
}

// Read implements io.Reader.
func (b *blocks) Read(dst []byte) (int, error) {
	for len(b.rest) == 0 {
		if len(b.framed) == 0 {
			return 0, io.EOF
		}
		block, rest, err := nextBlock(b.framed)
		if err != nil {
			return 0, err
		}
		if b.plain, err = appendBlock(b.plain[:0], block, b.limit); err != nil {
			return 0, err
		}
		b.rest, b.framed = b.plain, rest
	}
	n := copy(dst, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// openStreams is how many record batches of a process are unfolded piece by piece at the same time. Each may need a window of
// maxWindow bytes. When another batch needs a decoder, the least recently read one is taken from its batch. That batch starts
// again when its turn comes.
const openStreams = 2

// maxWindow bounds how far back a record batch may refer if it unfolds to more than that. It covers the window of zstd at every
// level below the "ultra" ones, and a whole block of snappy.
const maxWindow = 8 << 20

// unfolders are the streams of a process. They are safe for concurrent use.
type unfolders struct {
	mu    sync.Mutex
	freed sync.Cond
	slots [openStreams]unfolder
	turns int64
}

// unfolder is one of the streams.
type unfolder struct {
	owner   *openBatch // Nil means none.
	busy    bool
	turn    int64 // when it was last read
	at      int64 // number of bytes that were read
	codecs  codecs
	content io.Reader
}

func newUnfolders() *unfolders {
	u := new(unfolders)
	u.freed.L = &u.mu
	for i := range u.slots {
		u.slots[i].codecs.limit = maxWindow
	}
	return u
}

// read unfolds the next bytes of a record batch. io.EOF means that no more bytes follow the returned ones. Without an error dst
// is full.
func (u *unfolders) read(o *openBatch, dst []byte) (int, error) {
	s := u.take(o)
	defer u.give(s)
	if s.content == nil || s.at != o.unfolded {
		if err := s.begin(o); err != nil {
			return 0, err
		}
	}
	n, err := io.ReadFull(s.content, dst)
	s.at += int64(n)
	o.unfolded += int64(n)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		err = io.EOF
	case err != nil:
		s.content = nil
		return 0, s.failed(o, err)
	case o.unfolded > maxBatchBytes:
		return 0, errTooLarge
	}
	return n, err
}

// take waits for a stream. It prefers the stream that the record batch still owns.
func (u *unfolders) take(o *openBatch) *unfolder {
	u.mu.Lock()
	defer u.mu.Unlock()
	for {
		var found *unfolder
		for i := range u.slots {
			s := &u.slots[i]
			if s.owner == o {
				found = s
				break
			}
			if !s.busy && (found == nil || s.turn < found.turn) {
				found = s
			}
		}
		if found != nil {
			u.turns++
			found.busy, found.turn = true, u.turns
			if found.owner != o {
				found.owner, found.content = o, nil
			}
			return found
		}
		u.freed.Wait()
	}
}

func (u *unfolders) give(s *unfolder) {
	u.mu.Lock()
	defer u.mu.Unlock()
	s.busy = false
	u.freed.Signal()
}

// forget frees the stream of a record batch.
func (u *unfolders) forget(o *openBatch) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := range u.slots {
		if s := &u.slots[i]; s.owner == o {
			s.owner, s.content, s.turn = nil, nil, 0
			s.codecs.source.Reset(nil)
		}
	}
}

// begin opens a record batch and skips what was read of it before.
func (s *unfolder) begin(o *openBatch) (err error) {
	s.at = 0
	if s.content, err = s.codecs.open(o.codec(), o.packed); err != nil {
		return s.failed(o, err)
	}
	if s.at, err = io.CopyN(io.Discard, s.content, o.unfolded); err != nil {
		s.content = nil
		return s.failed(o, err)
	}
	return nil
}

func (s *unfolder) failed(o *openBatch, err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return decompressing(o.codec(), err)
}
