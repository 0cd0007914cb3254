package security

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// files is the folder of the certificates, in PEM. NAME.crt contains a certificate, NAME.key its key, and NAME.pem both. An
// authority has only NAME.crt.
type files struct{ dir string }

// path returns the path of a file.
func (f files) path(name string) string { return filepath.Join(f.dir, name) }

// authority issues certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// newFiles makes the authority of the brokers, an unknown authority, and the certificates that they issue.
func newFiles(dir string) (files, error) {
	f := files{dir}
	known, err := f.authority("known")
	if err != nil {
		return f, err
	}
	unknown, err := f.authority("unknown")
	if err != nil {
		return f, err
	}
	now := time.Now()
	here := x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: now.Add(time.Hour)}
	elsewhere := x509.Certificate{DNSNames: []string{"kafka.example"}, NotAfter: now.Add(time.Hour)}
	expired := here
	expired.NotAfter = now.Add(-time.Hour)
	return f, errors.Join(
		f.issue(known, "broker", here), f.issue(known, "expired", expired), f.issue(known, "elsewhere", elsewhere),
		f.issue(known, "writer", here), f.issue(unknown, "stranger", here), f.issue(known, "late", expired),
	)
}

func (f files) authority(name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{certificate, key}, f.write(name+".crt", &pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// issue writes a certificate and its key into one file, as Kafka needs them, and into two files, as waterwheel needs them.
func (f files) issue(by *authority, name string, template x509.Certificate) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template.SerialNumber, template.Subject, template.NotBefore = big.NewInt(2), pkix.Name{CommonName: name}, time.Now().Add(-24*time.Hour)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, &template, by.certificate, &key.PublicKey, by.key)
	if err != nil {
		return err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	certificate, secret := &pem.Block{Type: "CERTIFICATE", Bytes: der}, &pem.Block{Type: "PRIVATE KEY", Bytes: encoded}
	return errors.Join(f.write(name+".crt", certificate), f.write(name+".key", secret), f.write(name+".pem", secret, certificate))
}

func (f files) write(name string, blocks ...*pem.Block) error {
	var text []byte
	for _, block := range blocks {
		text = append(text, pem.EncodeToMemory(block)...)
	}
	if err := os.WriteFile(f.path(name), text, 0o600); err != nil {
		return fmt.Errorf("writing a certificate: %w", err)
	}
	return nil
}
