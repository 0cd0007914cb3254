package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/sasl"

	"waterwheel/internal/kafka/wire"
)

const (
	saslHandshakeVersion    = 1 // the first version whose login messages are requests of Kafka's protocol
	saslAuthenticateVersion = 1 // the first version that tells how long a session lasts
	// leastRenewal is the least time between two logins on one connection. Kafka ends a connection that logs in twice within a
	// second.
	leastRenewal = 1100 * time.Millisecond
	// maxIterations bounds the rounds of hashing that a broker may ask of SCRAM. Kafka allows 16,384.
	maxIterations = 1 << 20
)

// session is the login of one connection.
type session struct {
	mechanism sasl.Mechanism
	user      string // for messages
	// renewAt is when the connection must log in again. Zero means never.
	renewAt time.Time
}

// prove logs in. ctx only tells the broker's name to mechanisms that need it.
func (s *session) prove(ctx context.Context, rw io.ReadWriter) error {
	if err := s.converse(ctx, rw); err != nil {
		return fmt.Errorf("logging in as %q with %s: %w", s.user, s.mechanism.Name(), err)
	}
	return nil
}

func (s *session) converse(ctx context.Context, rw io.ReadWriter) error {
	if err := s.choose(rw); err != nil {
		return err
	}
	machine, proof, err := s.mechanism.Start(ctx)
	if err != nil {
		return fmt.Errorf("starting the login: %w", err)
	}
	for done := false; !done; {
		challenge, err := s.authenticate(rw, proof)
		if err != nil {
			return err
		}
		if err := bearable(challenge); err != nil {
			return err
		}
		done, proof, err = machine.Next(ctx, challenge)
		if errors.Is(err, kafkago.SASLAuthenticationFailed) {
			return err
		}
		if err != nil {
			return fmt.Errorf("%w: the broker's SASL message is not valid: %w", wire.ErrMalformed, err)
		}
	}
	return nil
}

// choose tells the broker the mechanism.
func (s *session) choose(rw io.ReadWriter) error {
	body := wire.AppendShortString(nil, s.mechanism.Name())
	answer, err := wire.Exchange(rw, wire.Call{API: protocol.SaslHandshake, Version: saslHandshakeVersion, Body: body})
	if err != nil {
		return fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	r := wire.NewReader(answer)
	code := kafkago.Error(r.Int16())
	var offered []string
	for range r.Times(r.LongLen()) {
		offered = append(offered, r.ShortString())
	}
	switch {
	case r.Err() != nil:
		return fmt.Errorf("%w: %w", errNoAnswer, r.Err())
	case code == kafkago.UnsupportedSASLMechanism:
		return fmt.Errorf("%w (the broker offers %s)", code, strings.Join(offered, ", "))
	case code != 0:
		return code
	}
	return nil
}

// authenticate sends one proof and returns the broker's challenge.
func (s *session) authenticate(rw io.ReadWriter, proof []byte) ([]byte, error) {
	body := wire.AppendLongBytes(nil, proof)
	answer, err := wire.Exchange(rw, wire.Call{API: protocol.SaslAuthenticate, Version: saslAuthenticateVersion, Body: body})
	if hungUp(err) {
		return nil, fmt.Errorf("%w: %w", errLoginCut, err)
	}
	if err != nil {
		return nil, err
	}
	r := wire.NewReader(answer)
	code, _ := kafkago.Error(r.Int16()), r.ShortString() // its message adds nothing to the code
	challenge := r.LongBytes()
	lifetime := time.Duration(r.Int64()) * time.Millisecond
	if r.Err() != nil {
		return nil, r.Err()
	}
	if code != 0 {
		return nil, code
	}
	if lifetime > 0 { // log in again before the end, and not all connections at once
		s.renewAt = time.Now().Add(max(leastRenewal, lifetime/100*80+rand.N(lifetime/100*10+1)))
	}
	return challenge, nil
}

// renew logs in again when its time has come. A broker with connections.max.reauth.ms ends a connection at the first request
// after that time.
func (s *session) renew(conn net.Conn) error {
	if s.renewAt.IsZero() || time.Now().Before(s.renewAt) {
		return nil
	}
	s.renewAt = time.Time{}
	return s.prove(context.Background(), conn)
}

// bearable refuses a SCRAM challenge with too many rounds of hashing.
func bearable(challenge []byte) error {
	for attribute := range strings.SplitSeq(string(challenge), ",") {
		text, ok := strings.CutPrefix(attribute, "i=")
		if n, err := strconv.Atoi(text); ok && (err != nil || n > maxIterations) {
			return fmt.Errorf("%w: the broker requires %.20s SCRAM iterations, but at most %d are allowed", wire.ErrMalformed, text, maxIterations)
		}
	}
	return nil
}
