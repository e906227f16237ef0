package main

import (
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"

	"keyfold/internal/testserver/authoritytest"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/sqltest"

	"keyfold/engine/causes"
)

func TestCausesOfMariaDB(t *testing.T) {
	t.Parallel()
	s := sqltest.Shared(t)
	name := s.Database(t)
	at := func(user, host, more string) string {
		return named(t, "SQL", "--database-url=mysql://"+user+"@"+host+"/"+name+more)
	}
	saysCause(t, at("root", s.Address(), "?tls=true"), causes.MariaDB, causes.NoTLS)
	saysCause(t, at("root", "127.0.0.1:1", ""), causes.MariaDB, causes.Refused)
	saysCause(t, at("root:wrong", s.Address(), ""), causes.MariaDB, causes.Credentials)
	// The server counts users by name and host: no other test has them.
	s.Exec(t, "CREATE USER few_"+name+" WITH MAX_CONNECTIONS_PER_HOUR 1")
	s.Exec(t, "GRANT ALL ON "+name+".* TO few_"+name)
	_ = at("few_"+name, s.Address(), "") // the one connection of the hour
	saysCause(t, at("few_"+name, s.Address(), ""), causes.MariaDB, causes.Rate)
	s.Exec(t, "CREATE USER none_"+name)
	saysCause(t, at("none_"+name, s.Address(), ""), causes.MariaDB, causes.Rights)
}

func TestCausesOfMariaDBsTLS(t *testing.T) {
	t.Parallel()
	authority, folder := authoritytest.New(t), t.TempDir()
	files := []string{filepath.Join(folder, "certificate"), filepath.Join(folder, "key")}
	issue := func(change func(*x509.Certificate)) {
		certificate, key := authority.Issue(t, change)
		for i, from := range []string{certificate, key} {
			text, err := os.ReadFile(from)
			if err == nil {
				err = os.WriteFile(files[i], text, 0o600)
			}
			must.OK(t, err)
		}
	}
	issue(nil)
	s := sqltest.Start(t, "--ssl-cert="+files[0], "--ssl-key="+files[1])
	_, port, _ := net.SplitHostPort(s.Address())
	url := "--database-url=mysql://root@localhost:" + port + "/" + s.Database(t)
	for id, change := range certificates {
		issue(change)
		s.Exec(t, "FLUSH SSL")
		saysCause(t, named(t, "SQL", url+"?tls=true"), causes.MariaDB, id)
	}
	s.Exec(t, "SET GLOBAL require_secure_transport = ON") // MariaDB 10.11 says no more than "access denied"
	saysCause(t, named(t, "SQL", url), causes.MariaDB, causes.Credentials)
}
