package kafka

import (
	"context"
	"encoding/binary"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/sasl/plain"

	"waterwheel/internal/kafka/wire"
)

// scripted answers each request of one connection with the result of answer. A nil result closes the connection.
func scripted(t *testing.T, answer func(api protocol.ApiKey, frame []byte) []byte) net.Conn {
	t.Helper()
	client, broker := net.Pipe()
	go func() {
		defer broker.Close()
		for {
			frame, err := readFrame(broker)
			if err != nil {
				return
			}
			body := answer(protocol.ApiKey(binary.BigEndian.Uint16(frame[4:])), frame)
			if body == nil {
				return
			}
			head := binary.BigEndian.AppendUint32(nil, uint32(len(body)+4))
			if _, err := broker.Write(append(append(head, frame[8:12]...), body...)); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { client.Close() })
	return client
}

// authenticated returns a broker's answer to the last proof, for a session of lifetime milliseconds.
func authenticated(lifetime uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{0, 0, 0xff, 0xff, 0, 0, 0, 0}, lifetime)
}

// TestLoginIsRenewed checks this because a broker with connections.max.reauth.ms closes connections whose login is too old.
func TestLoginIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		network := scripted(t, func(api protocol.ApiKey, _ []byte) []byte {
			asked = append(asked, api.String())
			switch api {
			case protocol.SaslHandshake:
				return []byte{0, 0, 0, 0, 0, 0}
			case protocol.SaslAuthenticate:
				return authenticated(60_000)
			}
			return []byte{0, 0, 0, 0, 0, 0}
		})
		s := &session{mechanism: plain.Mechanism{Username: "u", Password: "p"}}
		c := &wire.Conn{Conn: network, Renew: s.renew}
		if err := s.prove(context.Background(), network); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := wire.Exchange(c, wire.Call{API: protocol.Heartbeat, Version: wire.Version(protocol.Heartbeat)}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(30 * time.Second)
		}
		const want = "SaslHandshake SaslAuthenticate Heartbeat Heartbeat SaslHandshake SaslAuthenticate Heartbeat"
		if got := strings.Join(asked, " "); got != want {
			t.Errorf("asked %s, want %s", got, want)
		}
		network.Close()
	})
}

func TestLoginSurvivesHostileBrokers(t *testing.T) {
	handshake := []byte{0, 0, 0, 0, 0, 0}
	scram := func(text string) []byte {
		body := binary.BigEndian.AppendUint32([]byte{0, 0, 0xff, 0xff}, uint32(len(text)))
		return append(append(body, text...), make([]byte, 8)...)
	}
	for name, answers := range map[string][2][]byte{
		"mechanisms without end":  {{0, 0, 0x7f, 0xff, 0xff, 0xff}},
		"a mechanism without end": {{0, 33, 0, 0, 0, 1, 0x7f, 0xff}},
		"a challenge without end": {handshake, {0, 0, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff}},
		"work without end":        {handshake, scram("r=x,s=QSXCR+Q6sek8bf92,i=2000000000")},
		"work beyond numbers":     {handshake, scram("r=x,s=QSXCR+Q6sek8bf92,i=99999999999999999999999999")},
		"nonsense":                {handshake, scram("\xff\x00=,,,=")},
		"nothing":                 {handshake, {}},
	} {
		t.Run(name, func(t *testing.T) {
			network := scripted(t, func(api protocol.ApiKey, _ []byte) []byte {
				if api == protocol.SaslHandshake {
					return answers[0]
				}
				return answers[1]
			})
			mechanism, err := (&SASL{Mechanism: "SCRAM-SHA-256", Username: "u", Password: "p"}).mechanism()
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			if taken := allocated(func() { err = (&session{mechanism: mechanism}).prove(t.Context(), network) }); taken > 1<<20 {
				t.Errorf("%d bytes were allocated", taken)
			}
			if err == nil || time.Since(start) > 5*time.Second {
				t.Errorf("%v after %v", err, time.Since(start))
			}
		})
	}
}

func TestLoginSaysWhichMechanismsThereAre(t *testing.T) {
	body := binary.BigEndian.AppendUint32([]byte{0, 33}, 2)
	body = wire.AppendShortString(wire.AppendShortString(body, "PLAIN"), "SCRAM-SHA-512")
	network := scripted(t, func(protocol.ApiKey, []byte) []byte { return body })
	err := (&session{mechanism: plain.Mechanism{Username: "u", Password: "p"}}).prove(t.Context(), network)
	if err == nil || !strings.Contains(err.Error(), "the broker offers PLAIN, SCRAM-SHA-512") {
		t.Error(err)
	}
}

// TestLoginThatIsCutNamesItsSettings checks this because some brokers refuse a password by closing the connection.
func TestLoginThatIsCutNamesItsSettings(t *testing.T) {
	fake := startFake(t, &fakeBroker{password: "right", hangsUp: true})
	_, err := fake.open(t, func(o *Options) {
		o.Security.SASL = &SASL{Mechanism: "PLAIN", Username: "user", Password: "wrong"}
	})
	refused(t, err, StopProgram, fake.address(), `"user"`, "KAFKA_SASL_PASSWORD")
}

// TestAdvertisedAddressIsToldFromThoseOfTheSettings checks this because no setting here fixes an address that only the cluster
// names.
func TestAdvertisedAddressIsToldFromThoseOfTheSettings(t *testing.T) {
	const closed = "127.0.0.1:1"
	for given, want := range map[string]bool{"127.0.0.1:2": true, closed: false, "": false} {
		c := &connector{timeout: time.Second}
		if given != "" {
			c.bootstrap = []string{given}
		}
		_, err := c.dial(t.Context(), "tcp", closed)
		if err == nil || !strings.Contains(err.Error(), closed) || strings.Contains(err.Error(), "advertised.listeners") != want {
			t.Errorf("with %q in KAFKA_BROKERS: %v", given, err)
		}
	}
}

// allocated returns the number of bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
