#!/bin/bash
# Of a container: an executor of Spark on Kubernetes, or any command, such as riverrun.
set -euo pipefail

if [ "${1:-}" != executor ]; then
  exec "$@"
fi

# As Spark tells its executors: options of Java are in SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, …
options=()
while IFS='=' read -r name _; do
  options+=("${!name}")
done < <(env | grep '^SPARK_JAVA_OPT_' | sort -t_ -k4 -n || true)
home=$(python -c 'from riverrun.spark.session import spark_home; print(spark_home())')
java=$(python -c 'from riverrun.java import find_java; print(find_java().executable)')
exec "$java" "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
  -cp "${SPARK_CONF_DIR:-$home/conf}:$home/jars/*" \
  org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
  --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
  --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
  --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
