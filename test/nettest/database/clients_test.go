// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
	"crypto/tls"
	"net"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"purerdma/stream"
)

// redisOptions returns options of go-redis for connections over RDMA.
func redisOptions(d *stream.Dialer, address string) *redis.Options {
	return &redis.Options{Addr: address, Dialer: d.DialContext}
}

// secureRedisOptions returns options of go-redis for connections with TLS. With a Dialer, go-redis does not use its TLSConfig.
func secureRedisOptions(d *stream.Dialer, address string, config *tls.Config) *redis.Options {
	return &redis.Options{Addr: address, Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return tls.Client(conn, config), nil
	}}
}

// poolConfig returns a configuration of pgx for connections over RDMA. server is a URL such as
// "postgres://user@10.8.0.1:5432/database".
func poolConfig(d *stream.Dialer, server string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(server)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.DialFunc = d.DialContext
	return config, nil
}
