# The collector: no torch, no engine. Build from the repository's root:
#   docker build -f deploy/docker/collector.Dockerfile -t pd-tracer .
FROM python:3.12-slim AS build
WORKDIR /src
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels ./hooks . \
 && pip wheel --no-cache-dir --wheel-dir /wheels --find-links /wheels -c constraints.txt pd-tracer

FROM python:3.12-slim
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir --no-index --find-links /wheels pd-tracer && rm -rf /wheels \
 && useradd --system --uid 10001 --create-home pd-tracer
USER 10001
WORKDIR /data
ENV PD_TRACER_HOST=0.0.0.0 PD_TRACER_PORT=8400
EXPOSE 8400
HEALTHCHECK --interval=10s --timeout=3s CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8400/readyz', timeout=2)"]
ENTRYPOINT ["pd-tracer"]
CMD ["serve"]
