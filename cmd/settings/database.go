package settings

// Database says where interactions are stored before they are published.
type Database struct {
	URL string `name:"database-url" env:"DATABASE_URL" default:"" help:"SQL database of the outbox: mysql://user:password@host:3306/name (MySQL 8, MariaDB 10.6) or sqlite:///file." group:"servers" for:"database"`
}
