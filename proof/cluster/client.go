package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

func newClient(dir string) (*http.Client, error) {
	authority, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return nil, err
	}
	own, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(authority) {
		return nil, errors.New("ca.crt holds no certificate")
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own}, RootCAs: trusted}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: settings}, Timeout: time.Minute}, nil
}

// call asks the API server. A body is a patch, or with POST an object.
func (p *plane) call(ctx context.Context, method, path string, body, into any) error {
	var content []byte
	if body != nil {
		var err error
		if content, err = json.Marshal(body); err != nil {
			return err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, p.url()+path, bytes.NewReader(content))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/strategic-merge-patch+json")
	}
	answer, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	content, err = io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, content)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(content, into)
}

// kubectl runs kubectl. A warning is an error.
func (p *plane) kubectl(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, filepath.Join(p.tools, "kubectl"), append([]string{"--kubeconfig", p.file("kubeconfig"), "--warnings-as-errors"}, args...)...)
	command.Env = append(os.Environ(), "HOME="+p.dir)
	var faults strings.Builder
	command.Stderr = &faults
	answer, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s%s", strings.Join(args, " "), err, faults.String(), answer)
	}
	return string(answer), nil
}
