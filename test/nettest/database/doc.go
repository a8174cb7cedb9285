// SPDX-License-Identifier: Apache-2.0

// Package database runs clients of databases on connections of package stream: go-redis with a Redis server, and pgx with a
// PostgreSQL server. Clients and servers are unmodified. It is a module of its own, so that importers of purerdma never get
// the clients.
//
// The clients take the dialer of package stream. The servers know only sockets, so a relay connects each accepted
// connection with a socket of the server.
package database
