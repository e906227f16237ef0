package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// proxy is who the API server is to an extension's server, which takes its word for who a user is.
const proxy = "front-proxy"

// certify writes ca.crt, and tls.crt with tls.key, signed by it: the one certificate of all servers and clients here, an
// administrator's. KEDA has these names of files.
func certify(dir string) error {
	now := time.Now()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "cluster"}, NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(0, 0, 1),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: proxy, Organization: []string{"system:masters"}},
		NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	if err := sign(filepath.Join(dir, "ca.crt"), ca, ca, &caKey.PublicKey, caKey); err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	if err := sign(filepath.Join(dir, "tls.crt"), leaf, ca, &key.PublicKey, caKey); err != nil {
		return err
	}
	encoded, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(filepath.Join(dir, "tls.key"), "EC PRIVATE KEY", encoded)
}

func sign(path string, certificate, by *x509.Certificate, key *ecdsa.PublicKey, signer *ecdsa.PrivateKey) error {
	encoded, err := x509.CreateCertificate(rand.Reader, certificate, by, key, signer)
	if err != nil {
		return err
	}
	return writePEM(path, "CERTIFICATE", encoded)
}

func writePEM(path, kind string, content []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600)
}
