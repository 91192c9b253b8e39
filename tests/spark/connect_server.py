"""A server of Spark Connect for clients without Java; it says its address when it is there, and ends with its input."""

from __future__ import annotations

import socket
import sys

from pyspark.sql import SparkSession


def main() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    builder = SparkSession.builder.master("local[2,4]").config(
        "spark.plugins", "org.apache.spark.sql.connect.SparkConnectPlugin"
    )
    builder = builder.config("spark.connect.grpc.binding.port", port).config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    print(f"sc://127.0.0.1:{port}", flush=True)
    sys.stdin.read()
    spark.stop()


if __name__ == "__main__":
    main()
