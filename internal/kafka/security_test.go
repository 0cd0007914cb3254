package kafka

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// authority issues certificates for 127.0.0.1.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{certificate, key}
}

func (a *authority) issue(t *testing.T, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// files writes the authority's certificate, and a client's certificate and key, to a folder of their own.
func (a *authority) files(t *testing.T, name string) TLS {
	t.Helper()
	folder := t.TempDir()
	settings := TLS{CAFile: filepath.Join(folder, "ca.pem"), CertFile: filepath.Join(folder, "cert.pem"), KeyFile: filepath.Join(folder, "key.pem")}
	a.write(t, settings, name)
	return settings
}

func (a *authority) write(t *testing.T, settings TLS, name string) {
	t.Helper()
	certificate := a.issue(t, name)
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{
		settings.CAFile:   {Type: "CERTIFICATE", Bytes: a.certificate.Raw},
		settings.CertFile: {Type: "CERTIFICATE", Bytes: certificate.Certificate[0]},
		settings.KeyFile:  {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// handshake connects with the files to a server that requires a certificate, and returns the client's name.
func handshake(t *testing.T, c *connector, server *authority) (string, error) {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(server.certificate)
	listener := tls.NewListener(listen(t), &tls.Config{
		Certificates: []tls.Certificate{server.issue(t, "broker")}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	})
	defer listener.Close()
	names := make(chan string, 1)
	go func() {
		defer close(names)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if conn.(*tls.Conn).Handshake() == nil {
			names <- conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName
		}
	}()
	conn, err := c.dial(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return <-names, nil
}

func TestTLSFilesAreReadAgain(t *testing.T) {
	before, after := newAuthority(t), newAuthority(t)
	settings := before.files(t, "first")
	var log bytes.Buffer
	connector, err := Security{TLS: &settings}.connector(slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	expect := func(server *authority, want string) {
		t.Helper()
		if name, err := handshake(t, connector, server); name != want || err != nil {
			t.Errorf("the server saw %q, want %q: %v", name, want, err)
		}
	}
	expect(before, "first")
	if err := os.WriteFile(settings.KeyFile, []byte("half wri"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(before, "first") // the last readable one
	if !strings.Contains(log.String(), "KAFKA_TLS_KEY_FILE") {
		t.Errorf("the log says %q", log.String())
	}
	after.write(t, settings, "second")
	expect(after, "second")
	if _, err := handshake(t, connector, before); err == nil {
		t.Error("the certificate of the authority before is still taken")
	}
}

func TestTLSFilesThatAreWrongAreNamed(t *testing.T) {
	good := newAuthority(t).files(t, "client")
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, settings := range map[string]TLS{
		"reading KAFKA_TLS_CA_FILE":                          {CAFile: filepath.Join(t.TempDir(), "missing.pem")},
		"contains no PEM certificate":                        {CAFile: empty},
		"must be set together":                               {CertFile: good.CertFile},
		"reading KAFKA_TLS_CERT_FILE and KAFKA_TLS_KEY_FILE": {CertFile: good.CertFile, KeyFile: good.CertFile},
	} {
		if _, err := (Security{TLS: &settings}).connector(nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}
