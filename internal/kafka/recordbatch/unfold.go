package recordbatch

import (
	"errors"
	"io"
	"sync"
)

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
