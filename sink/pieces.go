package sink

// pieceBytes is how many bytes of a guarded message are handed to the kernel at most after one look at the lease.
const pieceBytes = 64 << 10

// piece is what to hand over next of bytes of which some were sent.
func piece(b []byte, sent int) []byte { return b[sent:min(sent+pieceBytes, len(b))] }
